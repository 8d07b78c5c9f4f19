//! Backups in simulation: the ops of a random schedule go on while a backup is copied. What is
//! restored must be the state at the point, and then go on like any engine.
use super::op::Op;
use super::run::caught;
use super::schedule::Schedule;
use super::twin::History;
use super::world::{Step, World};
use crate::base::Error;
use crate::engine::backup::format::{FrameReader, END};
use crate::engine::backup::{Backup, Phase, Restore};
use crate::engine::tests::backup::Stream;
use crate::engine::tests::fixture::{seeds, Random};
use crate::io::sim::SimDisk;
use std::sync::Arc;

/// Small pages find more in less time.
const USUAL: u64 = if cfg!(feature = "tiny-pages") { 800 } else { 40 };

/// Bad luck has tests of its own; the log stays on.
fn goes_on(op: &Op) -> bool {
    !matches!(
        op,
        Op::RedoLog { .. }
            | Op::Crash { .. }
            | Op::Fail { .. }
            | Op::FailRead { .. }
            | Op::Lie { .. }
            | Op::Space { .. }
    )
}

/// False: the backup was too slow for the log.
fn live(world: &mut World, ops: &[Op], random: &mut Random) -> Result<bool, String> {
    world.boot()?;
    let begin = random.below(ops.len() as u64 / 2 + 1) as usize;
    for op in &ops[..begin] {
        world.apply(*op)?;
    }
    let stream = Stream::default();
    let engine = world.engine().clone();
    let failed = |e: Error| format!("backup: {e}");
    let mut backup = Backup::start(&engine, Box::new(stream.clone())).map_err(failed)?;
    let mut rest = ops[begin..].iter().filter(|op| !matches!(op, Op::Close { .. }));
    let slowness = 1 + random.below(4);
    let mut expected = None;
    let mut copied_at = None;
    loop {
        for op in rest.by_ref().take(random.below(slowness + 1) as usize) {
            world.apply(*op)?;
        }
        match backup.step() {
            Ok(Phase::End) => break,
            Ok(Phase::Log)
                if expected.is_none() && random.chance(if rest.clone().next().is_some() { 25 } else { 100 }) =>
            {
                if !engine.backup.fix_point(b"").map_err(failed)? {
                    return Err("backup: the point is not taken".into());
                }
                expected = Some((**world.history.current()).clone());
                copied_at = Some(rest.clone().count());
            }
            Ok(_) => {}
            Err(e) if e.to_string().contains("too slow") => return Ok(false),
            Err(e) => return Err(failed(e)),
        }
    }
    drop(backup);
    let expected = expected.ok_or("the backup ended without its point")?;
    for op in rest {
        world.apply(*op)?;
    }
    let disk = restored(&stream.bytes(), world.setup.seed).map_err(|e| format!("restore: {e}"))?;
    let mut other = World::new(world.setup);
    other.disk = disk;
    other.history = History::of(expected);
    let what = |e: String| format!("restored, {copied_at:?} ops before the end: {e}");
    if !other.start().map_err(what)? {
        return Err("the restored files are not opened".into());
    }
    other.end().map_err(what)?;
    world.end().map(|()| true)
}

fn restored(stream: &[u8], seed: u64) -> crate::base::Result<Arc<SimDisk>> {
    let disk = SimDisk::new(seed);
    let mut frames = FrameReader::new(stream)?;
    let mut restore = Restore::new(disk.clone())?;
    loop {
        let frame = frames.next_frame()?;
        restore.put(frame)?;
        if frame.0 == END {
            break;
        }
    }
    restore.finish().map(|_| disk)
}

fn try_seed(seed: u64, slow: &mut u64) -> Option<String> {
    let schedule = Schedule::of_seed(seed);
    let ops: Vec<Op> = schedule.ops.iter().copied().filter(goes_on).collect();
    caught(|| -> Step {
        let mut world = World::new(schedule.setup);
        let done = live(&mut world, &ops, &mut Random(seed ^ 0xbac0))?;
        *slow += !done as u64;
        Ok(())
    })
}

#[test]
fn restored_backups_are_the_state_at_their_point() {
    let range = seeds(USUAL);
    let count = range.end() - range.start() + 1;
    let mut slow = 0;
    for seed in range {
        if let Some(finding) = try_seed(seed, &mut slow) {
            panic!("seed {seed}: {finding}");
        }
    }
    println!("{count} backups, {slow} of them too slow for the log");
    assert!(
        slow * 2 < count || count < 10,
        "{slow} of {count} backups lost their log"
    );
}
