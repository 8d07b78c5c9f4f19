//! The streams in memory: the list of free ones, and for each stream the history that purge has yet
//! to consume.
//!
//! Free streams are reused last in, first out, so that few pages are hot. For each stream the ends
//! of its past transactions are kept in order: their commit numbers ascend along the stream. A heap
//! over the streams, by the number of their first end, gives purge its next stream without a scan.
//!
//! Long histories are thinned. Of two old neighbours only the later end is kept, which covers the
//! earlier. So memory stays bounded, at the price of purging those a little later. The first end
//! stays: the heap knows the stream by it, and purge's limit may lie just after it.
//!
//! One mutex, [`Rank::UndoStreams`], held for a few pushes and pops; never while a page is fetched.
//! Called by `streams.rs`, `purge.rs`, `truncate.rs`.
use super::stream::{too_many, Skip, StreamTail};
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, PageNo, Result, UndoPtr};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// Streams at most: transactions that write at the same time.
pub(in crate::txn) const STREAMS_MAX: u32 = 4096;
/// Jobs done before streams that failed come again, while there are others.
const JOBS_IN_BETWEEN: u32 = 64;
/// Ends kept for one stream before the older half is thinned.
const ENDS_MAX: usize = 4096;

/// A transaction's end marker in its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) struct End {
    pub at: UndoPtr,
    pub number: u64,
}

/// Undone records, by the record before them (see `stream::Skip`).
pub(in crate::txn) type Skips = HashMap<UndoPtr, Skip>;

/// The reading end of a stream.
pub(in crate::txn) struct StreamHead {
    /// Purge goes on here.
    pub at: UndoPtr,
    pub skip_until: UndoPtr,
    pub skips: Skips,
    pub ends: VecDeque<End>,
    /// A purge job is out.
    pub busy: bool,
}

#[derive(Default)]
struct State {
    // Boxed as its owners hold it: taking and giving back moves a pointer.
    #[allow(clippy::vec_box)]
    free: Vec<Box<StreamTail>>,
    heads: Vec<Option<StreamHead>>,
    /// Numbers without a stream.
    vacant: Vec<u32>,
    /// (commit number of the first end, stream) of every stream that has ends, is not busy and does
    /// not stand in `later`.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// Streams that the disk failed to read: (microseconds, stream). They are not in the queue
    /// until then.
    later: Vec<(u64, u32)>,
    /// Jobs done since some of the streams in `later` came back.
    jobs: u32,
    /// The streams in `later` come back no more.
    is_last_round: bool,
}

/// What a purge job starts from.
pub(in crate::txn) struct Work {
    pub stream: u32,
    pub at: UndoPtr,
    pub skip_until: UndoPtr,
    pub skips: Skips,
    /// The last end marker that is old enough.
    pub limit: UndoPtr,
}

/// What a job has passed.
#[derive(Default)]
pub(in crate::txn) struct Passed {
    /// End markers, in order.
    pub ends: Vec<UndoPtr>,
    /// Keys of skips.
    pub skips: Vec<UndoPtr>,
}

/// Answer to the request for a stream.
pub(in crate::txn) enum Taken {
    Free(Box<StreamTail>),
    /// None is free: one is to be made under this number.
    Make(u32),
}

pub(in crate::txn) struct History {
    state: RankedMutex<State>,
    /// Ended transactions not yet purged.
    length: AtomicU64,
}

impl History {
    pub fn new() -> History {
        History {
            state: RankedMutex::new(Rank::UndoStreams, State::default()),
            length: AtomicU64::new(0),
        }
    }
    pub fn len(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    pub fn take_stream(&self) -> Result<Taken> {
        let mut state = self.state.lock();
        if let Some(tail) = state.free.pop() {
            debug_assert!(
                !tail.broken && !tail.used,
                "a free stream can be read, and nobody's undo is at its end"
            );
            return Ok(Taken::Free(tail));
        }
        if let Some(number) = state.vacant.pop() {
            return Ok(Taken::Make(number));
        }
        let number = state.heads.len() as u32;
        if number >= STREAMS_MAX {
            return Err(too_many());
        }
        state.heads.push(None);
        Ok(Taken::Make(number))
    }
    /// The stream for `number` could not be made.
    pub fn give_number_back(&self, number: u32) {
        let mut state = self.state.lock();
        debug_assert!(
            state.heads[number as usize].is_none(),
            "a number without a stream is given back"
        );
        state.vacant.push(number);
    }
    /// A stream was made, empty.
    pub fn add_stream(&self, tail: &StreamTail) {
        let at = UndoPtr {
            page: tail.page,
            offset: tail.at as u16,
        };
        self.state.lock().heads[tail.number as usize] = Some(StreamHead {
            at,
            skip_until: UndoPtr::NONE,
            skips: Skips::new(),
            ends: VecDeque::new(),
            busy: false,
        });
    }
    /// The owner ended; `end`: its end marker, if it has written. The stream is free for the next
    /// one.
    pub fn end(&self, mut tail: Box<StreamTail>, end: Option<End>) {
        let undone = tail.end_owner();
        let mut state = self.state.lock();
        if let Some(end) = end {
            self.length.fetch_add(1, Ordering::Relaxed);
            let head = state.heads[tail.number as usize]
                .as_mut()
                .expect("a stream in use has a head");
            head.skips.extend(undone);
            debug_assert!(
                head.ends.back().is_none_or(|last| last.number < end.number),
                "the transactions of a stream end one after another"
            );
            head.ends.push_back(end);
            thin(&mut head.ends);
            if head.ends.len() == 1 && !head.busy {
                state.queue.push(Reverse((end.number, tail.number)));
            }
        }
        if !tail.broken {
            state.free.push(tail);
        }
    }
    /// A stream that no transaction uses, that purge has emptied, and that has a page at or after
    /// `from`. No other caller gets it until `give_moved`.
    pub fn take_idle(&self, from: PageNo) -> Option<Box<StreamTail>> {
        let mut state = self.state.lock();
        let State { free, heads, .. } = &mut *state;
        let is_high = |tail: &StreamTail| tail.page >= from || tail.ahead.iter().any(|no| *no >= from);
        let is_idle = |tail: &StreamTail| {
            let head = heads[tail.number as usize].as_ref();
            head.is_some_and(|head| !head.busy && head.ends.is_empty())
        };
        let at = free.iter().position(|tail| is_high(tail) && is_idle(tail))?;
        let tail = free.remove(at);
        let head = heads[tail.number as usize].as_mut().expect("it was just looked at");
        debug_assert_eq!(head.at.page, tail.page, "purge has come to the stream's end");
        head.busy = true;
        Some(tail)
    }
    /// The stream has moved, or stayed where it was. `tail` is empty and stands where purge goes
    /// on.
    pub fn give_moved(&self, tail: Box<StreamTail>) {
        let mut state = self.state.lock();
        let head = state.heads[tail.number as usize].as_mut().expect("a stream has a head");
        debug_assert!(head.busy, "purge keeps off while a stream moves");
        debug_assert!(head.ends.is_empty(), "a stream moves only when it holds no undo");
        head.at = UndoPtr {
            page: tail.page,
            offset: tail.at as u16,
        };
        (head.busy, head.skip_until) = (false, UndoPtr::NONE);
        // The streams in frequent use are at the other end of the list.
        state.free.insert(0, tail);
    }
    /// Recovery: a stream as it was found. `tail` None: the stream belongs to a recovered
    /// transaction.
    pub fn restore(&self, number: u32, head: StreamHead, tail: Option<Box<StreamTail>>) {
        debug_assert!(
            tail.as_ref().is_none_or(|tail| tail.number == number),
            "a stream's end comes with its head"
        );
        let mut state = self.state.lock();
        while state.heads.len() <= number as usize {
            let vacant = state.heads.len() as u32;
            state.heads.push(None);
            if vacant != number {
                state.vacant.push(vacant);
            }
        }
        if let Some(first) = head.ends.front() {
            state.queue.push(Reverse((first.number, number)));
        }
        self.length.fetch_add(head.ends.len() as u64, Ordering::Relaxed);
        state.heads[number as usize] = Some(head);
        state.free.extend(tail);
    }

    /// The stream with the oldest end, if that is below `horizon`; it is busy until `done` or
    /// `give_back`.
    pub fn take_work(&self, horizon: u64) -> Option<Work> {
        let mut state = self.state.lock();
        let Reverse((number, stream)) = *state.queue.peek()?;
        if number >= horizon {
            return None;
        }
        state.queue.pop();
        let head = state.heads[stream as usize]
            .as_mut()
            .expect("a queued stream has a head");
        debug_assert!(!head.busy);
        assert_eq!(
            head.ends.front().map(|end| end.number),
            Some(number),
            "the queue has a stream by its first end"
        );
        head.busy = true;
        let old_enough = head.ends.partition_point(|end| end.number < horizon);
        Some(Work {
            stream,
            at: head.at,
            skip_until: head.skip_until,
            skips: std::mem::take(&mut head.skips),
            limit: head.ends[old_enough - 1].at,
        })
    }
    /// Where purge goes on in each stream that no job is out for, and what it skips first.
    pub fn heads(&self) -> Vec<(u32, UndoPtr, UndoPtr)> {
        let state = self.state.lock();
        let numbered = (0..).zip(&state.heads);
        let at_rest = numbered.filter_map(|(number, head)| Some((number, head.as_ref().filter(|head| !head.busy)?)));
        at_rest
            .map(|(number, head)| (number, head.at, head.skip_until))
            .collect()
    }
    /// There is work below `to`, and none below `from`.
    pub fn has_work_from(&self, from: u64, to: u64) -> bool {
        let state = self.state.lock();
        let first = state.queue.peek().map(|Reverse((number, _))| *number);
        first.is_some_and(|number| (from..to).contains(&number))
    }
    /// Brings the streams of `later` back that are due: when nothing else is below `horizon`, or
    /// after [`JOBS_IN_BETWEEN`] jobs. The oldest streams come first. So if they came back whenever
    /// they are due, some that fail would keep all others from being purged.
    pub fn wake_in_turn(&self, horizon: u64, now_us: u64) {
        let mut state = self.state.lock();
        let is_idle = state.queue.peek().is_none_or(|Reverse((number, _))| *number >= horizon);
        if !state.is_last_round && (is_idle || state.jobs >= JOBS_IN_BETWEEN) {
            wake(&mut state, now_us);
        }
    }
    /// All streams come back once more; those that fail then never do.
    pub fn begin_last_round(&self) {
        let mut state = self.state.lock();
        wake(&mut state, u64::MAX);
        state.is_last_round = true;
    }
    /// The job came as far as `work` now says.
    pub fn done(&self, work: Work, passed: &Passed) {
        let length = self.length.fetch_sub(passed.ends.len() as u64, Ordering::Relaxed);
        debug_assert!(length >= passed.ends.len() as u64, "purge passes an end once");
        let mut state = self.state.lock();
        state.jobs = state.jobs.saturating_add(1);
        put_back(&mut state, work, passed);
    }
    /// The stream could not be read. It comes back at `due_us`; meanwhile the others are purged.
    pub fn give_back_later(&self, work: Work, due_us: u64) {
        let stream = work.stream;
        let mut state = self.state.lock();
        put_back(&mut state, work, &Passed::default());
        state.queue.retain(|Reverse((_, other))| *other != stream);
        state.later.push((due_us, stream));
    }
    /// The job was not done; `work` stands where it was taken.
    pub fn give_back(&self, work: Work) {
        put_back(&mut self.state.lock(), work, &Passed::default());
    }
}

fn wake(state: &mut State, now_us: u64) {
    let State {
        heads, queue, later, ..
    } = state;
    later.retain(|(due_us, stream)| {
        let first = heads[*stream as usize].as_ref().and_then(|head| head.ends.front());
        let comes = *due_us <= now_us;
        if let (true, Some(first)) = (comes, first) {
            queue.push(Reverse((first.number, *stream)));
        }
        !comes
    });
    state.jobs = 0;
}

fn put_back(state: &mut State, mut work: Work, passed: &Passed) {
    for key in &passed.skips {
        work.skips.remove(key);
    }
    let head = state.heads[work.stream as usize]
        .as_mut()
        .expect("a busy stream has a head");
    debug_assert!(head.busy, "a stream is purged by one job at a time");
    head.busy = false;
    head.at = work.at;
    head.skip_until = work.skip_until;
    for end in &passed.ends {
        // Thinned ends are missing here.
        if head.ends.front().is_some_and(|first| first.at == *end) {
            head.ends.pop_front();
        }
    }
    let newer = std::mem::replace(&mut head.skips, work.skips);
    head.skips.extend(newer);
    match head.ends.front() {
        Some(first) => {
            let first = first.number;
            state.queue.push(Reverse((first, work.stream)));
        }
        None => head.skips.clear(),
    }
}

/// Keeps the first end, and the later of each pair in the older half after it.
fn thin(ends: &mut VecDeque<End>) {
    if ends.len() <= ENDS_MAX {
        return;
    }
    let old = 1..ENDS_MAX / 2 + 1;
    let kept: Vec<End> = ends.range(old.clone()).skip(1).step_by(2).copied().collect();
    let first = ends[0];
    ends.drain(..old.end);
    for end in kept.into_iter().rev() {
        ends.push_front(end);
    }
    debug_assert!(
        ends.front().is_none_or(|second| first.number < second.number),
        "the first end stays, and the order"
    );
    ends.push_front(first);
}

pub(in crate::txn) fn no_record_before_limit(stream: u32) -> Error {
    Error::corrupt(format!(
        "undo stream {stream} ends before its last known transaction; restore the engine's directory from a backup"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ptr(n: u64) -> UndoPtr {
        UndoPtr {
            page: (n / 1000) as u32 + 1,
            offset: (n % 1000) as u16,
        }
    }

    #[test]
    fn thinned_ends_stay_ordered_and_cover_what_they_replace() {
        let mut ends = VecDeque::new();
        for number in 1..100_000u64 {
            ends.push_back(End {
                at: ptr(number),
                number,
            });
            thin(&mut ends);
            assert!(ends.len() <= ENDS_MAX);
        }
        assert!(ends.iter().zip(ends.iter().skip(1)).all(|(a, b)| a.number < b.number));
        assert_eq!((ends[0].number, ends.back().unwrap().number), (1, 99_999));
        assert!(ends
            .iter()
            .rev()
            .take(ENDS_MAX / 2)
            .map(|e| e.number)
            .eq((0..).map(|i| 99_999 - i).take(ENDS_MAX / 2)));
    }

    #[test]
    fn work_comes_oldest_first_and_stops_at_the_horizon() {
        let history = History::new();
        for number in 0..3 {
            assert!(matches!(history.take_stream(), Ok(Taken::Make(n)) if n == number));
            history.add_stream(&StreamTail::at(number, ptr(number as u64), VecDeque::new()));
        }
        for (stream, number) in [(0, 10), (1, 5), (2, 7), (1, 11), (2, 12)] {
            let end = End {
                at: ptr(number),
                number,
            };
            history.end(Box::new(StreamTail::at(stream, end.at, VecDeque::new())), Some(end));
        }
        assert!(history.take_work(5).is_none());
        let work = history.take_work(11).unwrap();
        assert_eq!((work.stream, work.limit), (1, ptr(5)));
        let other = history.take_work(13).unwrap();
        assert_eq!((other.stream, other.limit), (2, ptr(12)));
        history.give_back(other);
        let passed = Passed {
            ends: vec![ptr(5)],
            ..Passed::default()
        };
        history.done(work, &passed);
        let order: Vec<u32> = std::iter::from_fn(|| history.take_work(100).map(|w| w.stream)).collect();
        assert_eq!(order, [2, 0, 1]);
        assert_eq!(history.len(), 4);
    }

    /// One stream, and so many transactions that end in it, with the numbers from `first` on.
    fn with_ends(ends: u64, first: u64) -> History {
        let history = History::new();
        assert!(matches!(history.take_stream(), Ok(Taken::Make(0))));
        history.add_stream(&StreamTail::at(0, ptr(0), VecDeque::new()));
        for number in first..first + ends {
            let end = End {
                at: ptr(number),
                number,
            };
            history.end(Box::new(StreamTail::at(0, end.at, VecDeque::new())), Some(end));
        }
        history
    }

    /// The first end had been thinned away, and the heap still had its number: below the horizon
    /// there was none.
    #[test]
    fn a_horizon_just_above_the_first_end_of_a_long_history_finds_it() {
        for ends in [1, ENDS_MAX as u64, ENDS_MAX as u64 + 1, 20_000] {
            let history = with_ends(ends, 1);
            assert!(!history.has_work_from(0, 1) && history.has_work_from(1, 2));
            let work = history.take_work(2).expect("the first is old enough");
            assert_eq!(work.limit, ptr(1), "{ends} ends");
            let passed = Passed {
                ends: vec![ptr(1)],
                ..Passed::default()
            };
            history.done(work, &passed);
            assert!(history.take_work(2).is_none());
            assert_eq!(history.len(), ends - 1);
        }
    }

    #[test]
    fn a_stream_that_cannot_be_read_lets_the_others_go_before_and_comes_again() {
        let history = with_ends(2, 1);
        while matches!(history.take_stream(), Ok(Taken::Free(_))) {}
        let tail = |at| StreamTail::at(1, at, VecDeque::new());
        history.add_stream(&tail(ptr(0)));
        let end = End { at: ptr(5), number: 5 };
        history.end(Box::new(tail(end.at)), Some(end));
        let work = history.take_work(9).expect("the oldest");
        assert_eq!(work.stream, 0);
        history.give_back_later(work, 100);
        history.wake_in_turn(9, 99);
        let work = history.take_work(9).expect("the other");
        assert_eq!(work.stream, 1);
        history.give_back_later(work, 300);
        assert!(history.take_work(9).is_none());
        history.wake_in_turn(9, 100);
        assert_eq!(history.take_work(9).expect("again").stream, 0);
        assert!(history.take_work(9).is_none());
    }

    /// A stream that was due again came before all others, failed, and so on.
    #[test]
    fn streams_that_fail_keep_no_other_from_being_purged() {
        let history = History::new();
        let streams = 100;
        for number in 0..streams {
            assert!(matches!(history.take_stream(), Ok(Taken::Make(n)) if n == number));
            history.add_stream(&StreamTail::at(number, ptr(0), VecDeque::new()));
        }
        for number in 0..streams {
            let end = End {
                at: ptr(number as u64),
                number: number as u64,
            };
            let tail = StreamTail::at(number, end.at, VecDeque::new());
            history.end(Box::new(tail), Some(end));
        }
        // The older half fails, and is due again at once.
        let mut now_us = 0;
        let mut failed = 0;
        while history.len() > streams as u64 / 2 {
            now_us += 1;
            history.wake_in_turn(1000, now_us);
            let work = history.take_work(1000).expect("there is more");
            if work.stream < streams / 2 {
                failed += 1;
                assert!(failed <= streams / 2, "others wait");
                history.give_back_later(work, now_us);
            } else {
                let ends = vec![ptr(work.stream as u64)];
                history.done(
                    work,
                    &Passed {
                        ends,
                        ..Passed::default()
                    },
                );
            }
        }
        assert_eq!(failed, streams / 2);
        // Now they come again, and in the last round once.
        history.wake_in_turn(1000, now_us);
        let work = history.take_work(1000).expect("nothing else is there");
        history.give_back_later(work, now_us);
        history.begin_last_round();
        for _ in 0..streams / 2 {
            now_us += 1;
            history.wake_in_turn(1000, now_us);
            let work = history.take_work(1000).expect("once more");
            history.give_back_later(work, now_us);
        }
        history.wake_in_turn(1000, u64::MAX);
        assert!(history.take_work(1000).is_none());
    }

    /// While a job is out, its limit may be thinned away; but the end that it leaves first is in
    /// the heap.
    #[test]
    fn a_history_thinned_under_a_job_goes_on_behind_it() {
        let history = with_ends(2, 1);
        let work = history.take_work(2).expect("the first is old enough");
        for number in 3..20_000 {
            let end = End {
                at: ptr(number),
                number,
            };
            history.end(Box::new(StreamTail::at(0, end.at, VecDeque::new())), Some(end));
        }
        let passed = Passed {
            ends: vec![ptr(1)],
            ..Passed::default()
        };
        history.done(work, &passed);
        assert!(history.take_work(2).is_none());
        let work = history.take_work(20_000).expect("the others");
        assert_eq!(work.limit, ptr(19_999));
    }
}
