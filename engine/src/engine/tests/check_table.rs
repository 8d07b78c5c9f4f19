//! CHECK TABLE beside writers, and what it says of an index that is not its rows'.
use super::fixture::*;
use super::isolation::*;
use crate::change::{self, Op};
use crate::index::secondary;
use crate::io::sim::SimDisk;
use crate::table::{CheckLevel, Checker, EntrySink};
use crate::txn::Isolation::ReadCommitted;
use std::sync::Arc;

const ROWS: u32 = 200;

fn row_of(n: u32) -> Row {
    row(n as u8, n as u16)
}
fn many(disk: Arc<SimDisk>) -> TableFixture {
    let fixture = TableFixture::create(disk);
    let mut trx = fixture.begin(ReadCommitted);
    (0..ROWS).for_each(|n| fixture.insert(&mut trx, &pk(n), &row_of(n)).expect("insert"));
    commit(&fixture, trx);
    fixture.purge_all();
    fixture
}

/// Whenever it is asked about a row, a tenth of a second has passed, and another row has moved in
/// both indexes.
struct Busy<'a> {
    fixture: &'a TableFixture,
    disk: &'a SimDisk,
    asker: FindingsChecker,
    moved: u32,
    history_max: u64,
}

impl Checker for Busy<'_> {
    fn finding(&mut self, line: &str) {
        self.asker.finding(line);
    }
    fn knows_entries(&self) -> bool {
        self.asker.knows_entries()
    }
    fn entries(&mut self, pk: &[u8], row: &[u8], each: EntrySink<'_>) {
        self.asker.entries(pk, row, each);
        self.disk.advance_us(100_000);
        let (turn, n) = (self.moved / ROWS, self.moved * 7 % ROWS);
        let at = |turn: u32| super::isolation::row((n + turn * 11) as u8, (n + turn * 1000) as u16);
        let mut trx = self.fixture.begin(ReadCommitted);
        let key = super::fixture::pk(n);
        self.fixture
            .update(&mut trx, &key, &at(turn), &at(turn + 1))
            .expect("update");
        commit(self.fixture, trx);
        self.moved += 1;
        self.fixture.purge_all();
        self.history_max = self.history_max.max(self.fixture.store().trx_sys.undo.history_length());
    }
}

/// The check kept one view from its beginning to its end. In a table with hot rows, each look at
/// one of them went through more and more versions. Purge stood still.
#[test]
fn an_extended_check_keeps_purge_for_a_second_at_a_time() {
    for (level, expected) in [(CheckLevel::Medium, ROWS as u64..1000), (CheckLevel::Extended, 5..20)] {
        let disk = SimDisk::new(1);
        let fixture = many(disk.clone());
        let names = ["by_group", "by_tag"].map(String::from).to_vec();
        let mut busy = Busy {
            fixture: &fixture,
            disk: &disk,
            asker: FindingsChecker(Vec::new(), names),
            moved: 0,
            history_max: 0,
        };
        let mut trx = fixture.begin(ReadCommitted);
        let sound = fixture.store().check_table(&mut trx, &fixture.table, level, &mut busy);
        assert_eq!(sound, Ok(true), "{level:?}: {:?}", busy.asker.0);
        assert!(busy.moved >= ROWS, "every row was asked about");
        let longest = busy.history_max;
        assert!(
            expected.contains(&longest),
            "{level:?}: {longest} transactions unpurged"
        );
        commit(&fixture, trx);
    }
}

/// Each kind by its name and key, and the way out once.
#[test]
fn an_extended_check_names_each_entry_that_is_wrong() {
    let put = |fixture: &TableFixture, key: &[u8], raw: &[u8]| {
        let mut value = Vec::new();
        secondary::encode(&mut value, 1, key.len() - 2, 0, raw);
        let op = Op::Put { key, value: &value };
        change::submit(&fixture.store().pool, &fixture.table.layout().secondary[0].index, op).expect("put");
    };
    let mark = |fixture: &TableFixture, key: &[u8]| {
        let op = Op::Mark { key, stamp: 1 };
        change::submit(&fixture.store().pool, &fixture.table.layout().secondary[0].index, op).expect("mark");
    };
    let its = row_of(3).group_key(&pk(3));
    let other = row_of(4).group_key(&pk(3));
    let gone = row_of(4).group_key(&pk(ROWS));
    let (lacks, stray, wrong) = ("lacks the entry of a row", "whose row is not there", "is not its row's");
    type Case<'a> = (&'a dyn Fn(&TableFixture), &'a [(&'a str, &'a [u8])]);
    let cases: [Case<'_>; 4] = [
        (&|fixture| mark(fixture, &its), &[(lacks, &its)]),
        (&|fixture| put(fixture, &gone, &[4]), &[(stray, &gone)]),
        (&|fixture| put(fixture, &other, &[3]), &[(wrong, &other)]),
        (&|fixture| put(fixture, &its, &[99]), &[(lacks, &its), (wrong, &its)]),
    ];
    for (n, (spoil, expected)) in cases.into_iter().enumerate() {
        let fixture = many(SimDisk::new(1));
        spoil(&fixture);
        let findings = fixture.findings(&mut fixture.begin(ReadCommitted), CheckLevel::Extended);
        assert_eq!(findings.len(), expected.len(), "case {n}: {findings:?}");
        for (finding, (what, key)) in findings.iter().zip(expected) {
            let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            for part in ["index by_group", what, &key, "REPAIR TABLE"] {
                assert!(finding.contains(part), "case {n}: {part} in {finding}");
            }
        }
        let findings = fixture.findings(&mut fixture.begin(ReadCommitted), CheckLevel::Medium);
        assert_eq!(findings.len(), 1, "case {n}: {findings:?}");
    }
}

/// It read the pages that a build had been given and had not written yet: zeros, or what had been
/// there before.
#[test]
fn a_check_finds_nothing_in_the_pages_of_an_index_build() {
    let fixture = super::append_hint::empty();
    let mut trx = fixture.begin(ReadCommitted);
    (0..ROWS).for_each(|n| fixture.insert(&mut trx, &pk(n), &row_of(n)).expect("insert"));
    commit(&fixture, trx);
    let build = super::append_hint::failed_build(&fixture, 3000);
    fixture.check_table();
    build.abort().expect("abort");
    fixture.check_table();
}
