//! A connection: how its transactions begin and end, their statements, and the record of what was
//! sent and answered.
//!
//! Most go from BEGIN to COMMIT; some are one statement in autocommit mode, some XA transactions. A
//! prepared one outlives the server. A session that lost its connection finishes it by XA RECOVER,
//! so its end is always known.
//!
//! In a cluster each session has its node. There are no XA transactions, and a conflict may be
//! reported at COMMIT.
use super::{Result, Shared, BAND, LIST_MAX, RECONNECT_S};
use crate::Plan;
use isolation_judge::history::TrxNo;
use isolation_judge::{End, Form, Item, Level, Lock, Op, Path, Time, Transaction, Value, Version, Way, What};
use mysql::prelude::{FromRow, Queryable};
use mysql::Conn;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) const DUPLICATE: u16 = 1062;
const LOCKED: u16 = 1205;
/// Duplicate key (another session inserted the row), snapshot conflict, lock wait timeout,
/// deadlock: begin the transaction again.
const AGAIN: [u16; 4] = [DUPLICATE, 1020, LOCKED, 1213];

#[derive(Default)]
pub(super) struct Record {
    pub(super) transactions: Vec<Transaction>,
    pub(super) misread: Vec<(TrxNo, String)>,
    pub(super) refused: Vec<(TrxNo, String)>,
}

pub(super) struct Session<'a> {
    pub(super) plan: &'a Plan,
    pub(super) shared: &'a Shared,
    pub(super) random: fastrand::Rng,
    pub(super) number: u32,
    server: lab_server::Address,
    node: u32,
    connection: Option<Conn>,
    record: Record,
    // Of the transaction that runs:
    form: Form,
    ops: Vec<Op>,
    undoing: bool,
    begun: Option<Time>,
    commit_sent: Time,
    // Of the statement sent last:
    pub(super) sent: Time,
    pub(super) done: Time,
    /// A register, and what an autocommit statement was shown of it. The next statement writes it
    /// if it is unchanged.
    pub(super) remembered: Option<(u32, Version)>,
}

pub(super) fn code(error: &mysql::Error) -> u16 {
    match error {
        mysql::Error::MySqlError(e) => e.code,
        _ => 0,
    }
}

/// Of a node that does not serve: it has left the cluster, or is about to.
const NOT_SERVED: [u16; 3] = [1047, 1180, 1317];

/// The connection is gone, or its node has left the cluster: what the statement did is not known.
pub(super) fn is_gone(error: &mysql::Error) -> bool {
    lab_server::is_lost(error) || NOT_SERVED.contains(&code(error))
}

/// Returns once the node has all that any node has committed by now.
pub(super) fn wait_for_cluster(plan: &Plan, c: &mut Conn) -> Result<()> {
    if !plan.is_cluster() {
        return Ok(());
    }
    c.query_drop("SET SESSION wsrep_sync_wait = 1")?;
    c.query_drop("SELECT COUNT(*) FROM registers")?;
    c.query_drop("SET SESSION wsrep_sync_wait = 0")
}

fn is_again(error: &mysql::Error) -> bool {
    AGAIN.contains(&code(error))
}

/// Of XA RECOVER.
type Prepared = (u32, u32, u32, String);

impl<'a> Session<'a> {
    pub(super) fn new(plan: &'a Plan, shared: &'a Shared, number: u32) -> Session<'a> {
        let random = fastrand::Rng::with_seed(plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let servers = plan.servers();
        let node = number % servers.len() as u32;
        Session {
            plan,
            shared,
            random,
            number,
            server: servers[node as usize].clone(),
            node,
            connection: None,
            record: Record::default(),
            form: Form::Begin,
            ops: Vec::new(),
            undoing: false,
            begun: None,
            commit_sent: 0,
            sent: 0,
            done: 0,
            remembered: None,
        }
    }

    pub(super) fn run(mut self) -> std::result::Result<Record, String> {
        while self.shared.commits.load(Ordering::Relaxed) < self.plan.commits {
            self.reconnect(None)?;
            (self.undoing, self.begun) = (false, None);
            self.form = match self.random.u8(0..100) {
                0..16 => Form::Statement,
                16..22 if !self.plan.is_cluster() => Form::Xa,
                _ => Form::Begin,
            };
            let (end, committed) = match self.form {
                Form::Begin => self.begin_to_commit()?,
                Form::Statement => self.alone()?,
                Form::Xa => self.xa()?,
            };
            if end == End::Committed {
                self.shared.commits.fetch_add(1, Ordering::Relaxed);
            }
            let ops = std::mem::take(&mut self.ops);
            self.record.transactions.push(Transaction {
                session: self.number,
                node: self.node,
                form: self.form,
                end,
                ops,
                begun: self.begun.unwrap_or(self.commit_sent),
                commit_sent: self.commit_sent,
                committed,
            });
        }
        Ok(self.record)
    }

    /// `open`: the transaction that may be prepared yet.
    fn reconnect(&mut self, open: Option<&str>) -> std::result::Result<(), String> {
        if self.connection.is_some() {
            return Ok(());
        }
        let until = Instant::now() + Duration::from_secs(RECONNECT_S);
        let mut risen = Vec::new();
        while self.connection.is_none() {
            let connected = (self.server.connect(Some(&self.plan.database))).and_then(|mut c| {
                self.prepare(&mut c)?;
                self.bury(&mut c, open, &mut risen)?;
                Ok(c)
            });
            match connected {
                Ok(connection) => self.connection = Some(connection),
                Err(e) if Instant::now() > until => return Err(format!("the server does not come back: {e}")),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        let trx = self.record.transactions.len() as TrxNo;
        for xid in risen {
            let text = format!("{xid} had ended, and is prepared again after the server's death");
            self.record.misread.push((trx, text));
        }
        Ok(())
    }
    /// Rolls back what had ended and is prepared nevertheless, and adds it to `risen`. Otherwise
    /// every session would wait for its rows for ever.
    fn bury(&self, c: &mut Conn, open: Option<&str>, risen: &mut Vec<String>) -> Result<()> {
        for (.., name) in c.query::<Prepared, _>("XA RECOVER")? {
            let xid = format!("'{name}'");
            if name.starts_with(&format!("{}-", self.number)) && open != Some(&xid) {
                c.query_drop(format!("XA ROLLBACK {xid}"))?;
                risen.push(xid);
            }
        }
        Ok(())
    }

    fn prepare(&self, c: &mut Conn) -> Result<()> {
        c.query_drop(format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL {}",
            self.plan.level.sql()
        ))?;
        wait_for_cluster(self.plan, c)?;
        c.query_drop("SET lock_wait_timeout = 20, innodb_lock_wait_timeout = 20")?;
        // Sluice's is global, and set by the caller that starts the server.
        let snapshot = (self.plan.level != Level::LooseRepeatableRead) as u8;
        c.query_drop(format!("SET innodb_snapshot_isolation = {snapshot}"))
    }

    // ---- transactions ----

    fn begin_to_commit(&mut self) -> std::result::Result<(End, Option<Time>), String> {
        if let Err(error) = self.statements() {
            return self.give_up(error, &["ROLLBACK"]);
        }
        if self.random.u8(0..100) < 8 {
            return match self.send("ROLLBACK") {
                Ok(()) => Ok((End::RolledBack, None)),
                Err(error) => self.give_up(error, &["ROLLBACK"]),
            };
        }
        let answer = self.send("COMMIT");
        self.commit_sent = self.sent;
        match answer {
            Ok(()) => Ok((End::Committed, Some(self.done))),
            Err(error) if is_gone(&error) => {
                self.connection = None;
                Ok((End::Unknown, None))
            }
            Err(error) => {
                self.refused("COMMIT", &error);
                self.give_up(error, &["ROLLBACK"])
            }
        }
    }

    /// One statement, which commits by itself.
    fn alone(&mut self) -> std::result::Result<(End, Option<Time>), String> {
        let answer = match self.remembered.take() {
            Some((key, old)) => self.set_if_still(key, old),
            None => self.step_alone(),
        };
        (self.commit_sent, self.begun) = (self.sent, Some(self.sent));
        match answer {
            Ok(()) => Ok((End::Committed, Some(self.done))),
            Err(error) if is_gone(&error) => {
                self.connection = None;
                Ok((End::Unknown, None))
            }
            Err(error) => self.give_up(error, &[]),
        }
    }

    fn xa(&mut self) -> std::result::Result<(End, Option<Time>), String> {
        let xid = format!("'{}-{}'", self.number, self.record.transactions.len());
        let [start, end, prepare, commit, rollback] =
            ["START", "END", "PREPARE", "COMMIT", "ROLLBACK"].map(|verb| format!("XA {verb} {xid}"));
        let statements = self.send(&start).and_then(|()| {
            self.begun = None;
            let steps = self.random.u32(1..=4);
            (0..steps).try_for_each(|_| self.step())?;
            self.send(&end)
        });
        if let Err(error) = statements {
            return self.give_up(error, &[&end, &rollback]);
        }
        let commits = self.random.u8(0..100) >= 8;
        let is_refused = |answer: &Result<()>| answer.as_ref().is_err_and(|e| !is_gone(e));
        let prepared = self.send(&prepare);
        if is_refused(&prepared) {
            let error = prepared.expect_err("refused");
            self.refused(&prepare, &error);
            return self.give_up(error, &[&rollback]);
        }
        let is_prepared = prepared.is_ok();
        let last = if commits { &commit } else { &rollback };
        let answer = prepared.and_then(|()| self.send(last));
        self.commit_sent = self.sent;
        match answer {
            Ok(()) if commits => Ok((End::Committed, Some(self.done))),
            Ok(()) => Ok((End::RolledBack, None)),
            Err(error) if is_gone(&error) => self.recover(&xid, last, commits, is_prepared),
            Err(error) => Err(format!("session {}: {last}: {error}", self.number)),
        }
    }

    /// What was prepared is there after the server's death, or the last word on it was heard.
    fn recover(
        &mut self,
        xid: &str,
        last: &str,
        commits: bool,
        was_prepared: bool,
    ) -> std::result::Result<(End, Option<Time>), String> {
        self.connection = None;
        loop {
            self.reconnect(Some(xid))?;
            let listed = self.ask::<Prepared>("XA RECOVER");
            let Ok(listed) = listed else {
                self.connection = None;
                continue;
            };
            let is_listed = listed.iter().any(|row| format!("'{}'", row.3) == xid);
            if !is_listed {
                // A transaction that wrote nothing is in no list, and its end was not reported.
                let writes = self
                    .ops
                    .iter()
                    .any(|op| matches!(op.what, What::Write { .. }) && !op.undone);
                return match commits && was_prepared {
                    true if writes => Ok((End::Committed, None)),
                    true => Ok((End::Unknown, None)),
                    false => Ok((End::RolledBack, None)),
                };
            }
            match self.send(last) {
                Ok(()) if commits => return Ok((End::Committed, Some(self.done))),
                Ok(()) => return Ok((End::RolledBack, None)),
                // The next look tells whether it was heard.
                Err(error) if is_gone(&error) => {
                    self.connection = None;
                    return self.recover(xid, last, commits, true);
                }
                Err(error) => return Err(format!("session {}: {last} of XA RECOVER: {error}", self.number)),
            }
        }
    }

    /// Rolled back, by the server or by these statements. A connection that does not obey is
    /// dropped.
    fn give_up(&mut self, error: mysql::Error, undo: &[&str]) -> std::result::Result<(End, Option<Time>), String> {
        if is_gone(&error) {
            self.connection = None;
        } else if !is_again(&error) {
            return Err(format!("session {}: {error}", self.number));
        } else if let Some((last, before)) = undo.split_last() {
            for statement in before {
                let _ = self.send(statement);
            }
            if self.send(last).is_err() {
                self.connection = None;
            }
        }
        Ok((End::RolledBack, None))
    }

    fn statements(&mut self) -> Result<()> {
        let with_snapshot = self.random.u8(0..8) == 0;
        self.send(match with_snapshot {
            true => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            false => "BEGIN",
        })?;
        self.begun = with_snapshot.then_some(self.sent);
        let steps = self.random.u32(1..=5);
        // Not first. SAVEPOINT does not reach an engine that the transaction has not used yet, and
        // ROLLBACK TO then ends its whole part, with snapshot and locks. The server does so with
        // every engine.
        let savepoint = (self.random.u8(0..8) == 0).then(|| self.random.u32(1..=steps));
        for step in 0..steps {
            if savepoint == Some(step) {
                self.send("SAVEPOINT s")?;
                self.undoing = true;
                for _ in 0..self.random.u32(1..=2) {
                    self.step()?;
                }
                self.undoing = false;
                self.send("ROLLBACK TO s")?;
            }
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let slot = self.random.u32(0..self.plan.rows);
        match self.random.u8(0..100) {
            0..14 => self.append(slot, Path::Primary),
            14..22 => self.append(slot, Path::Secondary),
            22..27 => self.append_or_insert(slot),
            27..36 => self.write_back(slot),
            36..48 => self.set_register(slot),
            48..52 => self.set_several(slot, false),
            52..54 => self.remove_register(slot),
            54..57 => self.insert_two(slot),
            57..59 => self.set_several(slot, true),
            59..69 => self.read_some_registers(slot),
            _ => self.read_some_lists(slot),
        }
    }

    fn step_alone(&mut self) -> Result<()> {
        let slot = self.random.u32(0..self.plan.rows);
        match self.random.u8(0..5) {
            0 => self.append_or_insert(slot),
            1 => self.read_some_lists(slot),
            2 => self.copy_registers(slot),
            _ => self.read_some_registers(slot),
        }
    }

    // ---- what statements are made of ----

    pub(super) fn key(&self, slot: u32) -> u32 {
        slot + self.plan.rows * (self.shared.appends[slot as usize].load(Ordering::Relaxed) / LIST_MAX)
    }
    /// The first of this many values that no other session writes.
    pub(super) fn values(&self, number: u32) -> Value {
        self.shared.values.fetch_add(number, Ordering::Relaxed)
    }
    pub(super) fn place(&mut self, key: u32) -> u32 {
        key * BAND + self.random.u32(0..BAND)
    }
    pub(super) fn lock_before_write(&self) -> Lock {
        match self.plan.served() {
            Level::ReadUncommitted | Level::ReadCommitted => Lock::Update,
            _ => Lock::None,
        }
    }
    pub(super) fn is_alone(&self) -> bool {
        self.form == Form::Statement
    }

    // ---- the connection and the record ----

    pub(super) fn send(&mut self, sql: &str) -> Result<()> {
        self.timed(|connection| connection.query_drop(sql))
    }
    pub(super) fn ask<T: FromRow>(&mut self, sql: &str) -> Result<Vec<T>> {
        self.timed(|connection| connection.query(sql))
    }
    fn timed<T>(&mut self, statement: impl FnOnce(&mut Conn) -> Result<T>) -> Result<T> {
        self.sent = self.shared.now();
        self.begun.get_or_insert(self.sent);
        let answer = statement(self.connection.as_mut().expect("connected"));
        self.done = self.shared.now();
        answer
    }
    /// A statement that writes these values.
    pub(super) fn write(&mut self, sql: &str, written: &[(Item, Value)]) -> Result<()> {
        let answer = self.send(sql);
        if answer.is_err() {
            self.note_failed(written);
        }
        answer
    }
    /// What a failed statement did may have been seen before it was undone.
    pub(super) fn note_failed(&mut self, written: &[(Item, Value)]) {
        for &(item, value) in written {
            let (over, gone, failed) = (None, false, true);
            let what = What::Write { value, over, gone };
            self.note(
                item,
                what,
                Way {
                    failed,
                    ..Way::default()
                },
            );
        }
    }
    /// None: it did not want to wait for a lock.
    pub(super) fn ask_or_pass<T: FromRow>(&mut self, sql: &str, passes: bool) -> Result<Option<Vec<T>>> {
        match self.ask(sql) {
            Err(error) if passes && code(&error) == LOCKED => Ok(None),
            answer => answer.map(Some),
        }
    }
    pub(super) fn affected(&self) -> u64 {
        self.connection.as_ref().expect("connected").affected_rows()
    }
    pub(super) fn note(&mut self, item: Item, what: What, way: Way) {
        self.ops.push(Op {
            item,
            what,
            way,
            undone: self.undoing || way.failed,
            sent: self.sent,
            done: self.done,
        });
    }
    /// A statement's rows are inconsistent in themselves. READ UNCOMMITTED promises nothing about a
    /// scan among changes.
    pub(super) fn complain(&mut self, text: String) {
        if self.plan.served() != Level::ReadUncommitted {
            let trx = self.record.transactions.len() as TrxNo;
            self.record.misread.push((trx, text));
        }
    }
    /// A conflict must be reported before the COMMIT.
    fn refused(&mut self, what: &str, error: &mysql::Error) {
        if is_again(error) && !self.plan.is_cluster() {
            let trx = self.record.transactions.len() as TrxNo;
            self.record.refused.push((trx, format!("{what}: {error}")));
        }
    }
}
