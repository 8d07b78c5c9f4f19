//! Crash at any write: random mini-transactions, flushes and checkpoints on the simulated disk, up
//! to a random change.
//!
//! After recovery every page is what the surviving log says, and every group flushed as durable has
//! survived. The recovered pool can crash and recover again.
use crate::base::{Lsn, PageId, Result};
use crate::io::SimDisk;
use crate::pool::page::init_page;
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::{PageType, PAGE_SIZE};
use crate::redo::FlushMode;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGES: u32 = 40;
const FRAMES: usize = 24;

#[derive(Clone, Debug)]
enum Step {
    /// (page, what, where, byte)
    Mtr(Vec<(u32, u8, u16, u8)>),
    Sync,
    Flush(u8),
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    let edit = (0..PAGES, 0..8u8, any::<u16>(), any::<u8>());
    prop_oneof![
        12 => prop::collection::vec(edit, 1..6).prop_map(Step::Mtr),
        2 => Just(Step::Sync),
        3 => (1..30u8).prop_map(Step::Flush),
        1 => Just(Step::Checkpoint),
    ]
}

/// Pages as they should be (from byte 24 on) after the group that ends at the key.
type Model = BTreeMap<Lsn, BTreeMap<u32, Vec<u8>>>;

struct Run {
    fixture: PoolFixture,
    pages: BTreeMap<u32, Vec<u8>>,
    model: Model,
    durable: Lsn,
}

impl Run {
    fn apply(&mut self, step: &Step) -> Result<()> {
        let pool = self.fixture.pool.clone();
        match step {
            Step::Mtr(edits) => self.mtr(edits)?,
            Step::Sync => {
                let lsn = pool.redo().lsn();
                pool.redo().flush(lsn, FlushMode::Sync)?;
                self.durable = lsn;
            }
            Step::Flush(n) => {
                pool.flusher().step(*n as usize)?;
            }
            Step::Checkpoint => {
                let lsn = pool.checkpoint_lsn();
                pool.redo().flush(lsn, FlushMode::Sync)?;
                pool.redo().write_checkpoint(lsn, b"")?;
            }
        }
        Ok(())
    }
    fn mtr(&mut self, edits: &[(u32, u8, u16, u8)]) -> Result<()> {
        let mut pages = self.pages.clone();
        let mut mtr = self.fixture.pool.begin();
        // All frames first: an error must find nothing changed.
        for (no, what, ..) in edits {
            let id = PageId::new(FILE, *no);
            if *what == 0 || !pages.contains_key(no) {
                mtr.reserve(id)?;
                pages.entry(*no).or_default();
            } else {
                mtr.write(id)?;
            }
        }
        let mut pages = self.pages.clone();
        for (no, what, at, byte) in edits {
            let id = PageId::new(FILE, *no);
            let new = *what == 0 || !pages.contains_key(no);
            let model = pages.entry(*no).or_insert_with(|| vec![0; PAGE_SIZE]);
            if new {
                mtr.create(id, 3, PageType::System, 1)?;
                init_page(model, id, 3, PageType::System, 1);
            }
            let page = mtr.find(id).expect("got above");
            let at = 32 + *at as usize % (PAGE_SIZE - 32 - 400);
            match what {
                1 => {
                    mtr.move_within(page, at, at + 100, 300);
                    model.copy_within(at + 100..at + 400, at);
                }
                2 => {
                    let fill = |page: &mut [u8]| {
                        page[32..].fill(0);
                        page[32..32 + 300].fill(*byte);
                        page[PAGE_SIZE - 77..].fill(byte.wrapping_add(1));
                        (32 + 300, PAGE_SIZE - 77)
                    };
                    fill(model);
                    mtr.rewrite(page, &mut { fill });
                }
                _ => {
                    let data = vec![*byte; 1 + *what as usize * 20];
                    mtr.edit(page, at, &data);
                    model[at..at + data.len()].copy_from_slice(&data);
                }
            }
        }
        let end = mtr.commit();
        if end > 0 {
            self.model.insert(end, pages.clone());
        }
        self.pages = pages;
        Ok(())
    }
    /// After a crash: which of the states in the model is it?
    fn recover(disk: Arc<SimDisk>, model: &Model, durable: Lsn) -> Run {
        let fixture = PoolFixture::recover(disk, FRAMES, &mut |_, _| {});
        let end = fixture.recovered;
        assert!(
            end >= durable,
            "the log was durable up to {durable} and now ends at {end}"
        );
        let pages = model
            .range(..=end)
            .next_back()
            .map(|(_, p)| p.clone())
            .unwrap_or_default();
        for (no, expected) in &pages {
            let page = fixture.pool.read(PageId::new(FILE, *no)).unwrap();
            assert!(
                page[24..] == expected[24..],
                "page {no} differs after recovery to {end}"
            );
        }
        let model = model.range(..=end).map(|(k, v)| (*k, v.clone())).collect();
        Run {
            fixture,
            pages,
            model,
            durable,
        }
    }
}

fn crash_and_recover(seed: u64, steps: &[Step], crashes: &[u16]) {
    let fixture = PoolFixture::create(seed, FRAMES);
    fixture.add_file(FILE, PAGES / 2, true);
    let mut run = Run {
        fixture,
        pages: BTreeMap::new(),
        model: Model::new(),
        durable: 0,
    };
    let mut steps = steps.iter();
    for (n, crash) in crashes.iter().enumerate() {
        run.fixture
            .disk
            .crash_at(run.fixture.disk.changes() + 1 + *crash as u64);
        for step in steps.by_ref() {
            if run.apply(step).is_err() || run.fixture.disk.is_dead() {
                break;
            }
        }
        let disk = run.fixture.disk.crash(seed + n as u64);
        let (model, durable) = (run.model, run.durable);
        drop(run.fixture);
        run = Run::recover(disk, &model, durable);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn any_crash_recovers_to_a_prefix_that_holds_all_durable_groups(
        seed in any::<u32>(),
        steps in prop::collection::vec(step(), 20..200),
        crashes in prop::collection::vec(0..120u16, 1..4),
    ) {
        crash_and_recover(seed as u64, &steps, &crashes);
    }
}
