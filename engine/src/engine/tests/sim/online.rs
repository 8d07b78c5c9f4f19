//! ALTER TABLE that lets writers go on, in the simulation: ADD INDEX, and a rebuild. It takes ops
//! of its own to begin, to go a step, and to end; others write between them. As in the server, its
//! begin and its end have the table to themselves, and no other DDL gets the table meanwhile.
//!
//! A crash leaves a rebuilt table that was not published. The start drops it, as the server does.
use super::table::{spec, Handle};
use super::twin::{Change, Kind, State, KINDS};
use super::world::{Step, World};
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::engine::tests::fixture::{change_of, Row};
use crate::engine::Engine;
use crate::table::{Followed, IndexBuild, IndexChange, LockChoice, OnlineAlter, Pass, RowChange, Table, TableLoad};
use crate::txn::{Isolation, ThreadWaiter, Trx};
use std::rc::Rc;
use std::sync::Arc;

/// Of rebuilt tables; no user has such a name.
const WORK_PREFIX: &str = "#rebuilt";

enum Work {
    Index {
        kind: Kind,
        build: IndexBuild,
    },
    Rebuild {
        name: String,
        rebuilt: Arc<Table>,
        load: Option<TableLoad>,
    },
}

/// One that is under way.
pub struct Online {
    pub name: String,
    kinds: Vec<Kind>,
    table: Arc<Table>,
    alter: OnlineAlter,
    view: Trx,
    /// What the first view sees.
    base: Rc<State>,
    is_filled: bool,
    work: Work,
}

impl World {
    /// `kind`: of the index; from `KINDS.len()` on a rebuild.
    pub fn online_begin(&mut self, table: u64, kind: u64) -> Step {
        let free = self.table_name(table).filter(|name| !self.is_used(name));
        let Some(name) = free.filter(|_| self.online.is_none()) else {
            self.passed_over += 1;
            return Ok(());
        };
        self.finish_losers()?;
        if self.over || self.is_gone() {
            return Ok(());
        }
        let base = self.history.current().clone();
        let kinds = base.tables[&name].kinds.clone();
        let kind = KINDS.get(kind as usize).copied();
        if kind.is_some_and(|kind| kinds.contains(&kind)) {
            self.passed_over += 1;
            return Ok(());
        }
        match self.open_online(&name, kinds, kind, base) {
            Ok(online) => {
                self.online = Some(online);
                Ok(())
            }
            Err(e) => self.judge("beginning an online ALTER TABLE", &e),
        }
    }

    fn open_online(&mut self, name: &str, kinds: Vec<Kind>, kind: Option<Kind>, base: Rc<State>) -> Result<Online> {
        let store = self.store();
        let table = store.tables().open_table(name)?;
        let work = match kind {
            Some(kind) => {
                let build = store.indexes().begin_build(&table, &kind.spec())?;
                Work::Index { kind, build }
            }
            None => {
                let name = format!("{WORK_PREFIX}-{}", self.new_name());
                store.tables().create_table(&name, &spec(&kinds))?;
                let rebuilt = store.tables().open_table(&name)?;
                let load = store.loads().begin_load(&rebuilt);
                match load {
                    Ok(load) => Work::Rebuild { name, rebuilt, load },
                    Err(e) => return store.tables().drop_table(&name).and(Err(e)),
                }
            }
        };
        let mut view = new_view(self.engine());
        match store.begin_online(&table, &mut view) {
            Ok(alter) => Ok(Online {
                name: name.to_string(),
                kinds,
                table,
                alter,
                view,
                base,
                is_filled: false,
                work,
            }),
            Err(e) => work.give_up(self).and(Err(e)),
        }
    }

    /// The first step reads all rows, the others are rounds.
    pub fn online_step(&mut self) -> Step {
        match self.online.take() {
            None => Ok(()),
            Some(online) => self.go_on(online).map(|_| ()),
        }
    }

    /// True: it goes on.
    fn go_on(&mut self, mut online: Online) -> std::result::Result<bool, String> {
        let engine = self.engine().clone();
        let done = match online.is_filled {
            true => online.round(&engine),
            false => {
                // All rows are written in one step, and no other thread frees space in the log.
                self.make_room(90)?;
                match self.is_gone() {
                    true => return Ok(false),
                    false => online.fill(&engine),
                }
            }
        };
        let has_duplicates = online.unique_twice(&online.base);
        match done {
            Ok(()) if has_duplicates => Err("a unique index was built over duplicates".into()),
            Ok(()) => {
                self.online = Some(online);
                Ok(true)
            }
            Err(Error::Duplicate { .. }) if has_duplicates => self.give_up_online(online).map(|()| false),
            Err(e) => {
                self.judge("a step of an online ALTER TABLE", &e)?;
                self.give_up_online(online).map(|()| false)
            }
        }
    }

    /// The last round and the change of the catalog, once no transaction has changes in the table.
    pub fn online_end(&mut self) -> Step {
        let is_used = |online: &Online| self.is_used_by_trx(&online.name);
        if self.online.as_ref().is_none_or(is_used) {
            return Ok(());
        }
        let mut online = self.online.take().expect("there is one");
        for _ in 0..2 {
            if !self.go_on(online)? || self.over || self.is_gone() {
                return Ok(());
            }
            online = self.online.take().expect("it goes on");
        }
        self.publish_online(online)
    }

    fn publish_online(&mut self, mut online: Online) -> Step {
        let has_duplicates = online.unique_twice(self.history.current());
        if let Work::Index { build, .. } = &mut online.work {
            match build.prove_unique() {
                Ok(()) if has_duplicates => return Err("a unique index was proved over duplicates".into()),
                Ok(()) => {}
                Err(e) => {
                    let is_right = matches!(e, Error::Duplicate { .. }) && has_duplicates;
                    if !is_right {
                        self.judge("proving a unique index", &e)?;
                    }
                    return self.give_up_online(online);
                }
            }
        }
        let Online {
            name,
            kinds,
            table,
            alter,
            mut view,
            work,
            ..
        } = online;
        drop(alter);
        let ended = self.engine().clone().commit(&mut view, false);
        self.judge_end("a view", ended)?;
        if self.is_gone() {
            return Ok(());
        }
        match work {
            Work::Index { kind, build } => {
                let mut after = kinds;
                after.push(kind);
                let order: Vec<&str> = after.iter().map(|k| k.name()).collect();
                let change = Change::Indexes(name, after.clone());
                self.decide_ddl(change, |store| {
                    store.indexes().alter_indexes(&[IndexChange {
                        add: vec![&build],
                        order,
                        ..change_of(&table)
                    }])
                })
            }
            Work::Rebuild { name: rebuilt, .. } => {
                let change = Change::Indexes(name, kinds);
                self.decide_ddl(change, |store| store.tables().replace_table(&table, &rebuilt, false))?;
                // After a failure of which the engine knows that nothing has happened.
                match self.over || self.is_gone() || self.store().tables().open_table(&rebuilt).is_err() {
                    true => Ok(()),
                    false => self.drop_rebuilt(&rebuilt),
                }
            }
        }
    }

    /// It ends without a result.
    pub fn give_up_online(&mut self, online: Online) -> Step {
        let Online {
            alter, mut view, work, ..
        } = online;
        drop(alter);
        if self.is_gone() {
            return Ok(());
        }
        let ended = self.engine().clone().commit(&mut view, false);
        self.judge_end("a view", ended)?;
        if self.is_gone() {
            return Ok(());
        }
        let given_up = work.give_up(self);
        self.judge_result("giving an online ALTER TABLE up", given_up)
    }

    fn drop_rebuilt(&mut self, name: &str) -> Step {
        let dropped = self.store().tables().drop_table(name);
        self.judge_result("dropping a rebuilt table", dropped)
    }

    /// At the start: what a crash has left. False: bad luck.
    pub fn drop_what_was_rebuilt(&mut self) -> std::result::Result<bool, String> {
        for name in self.store().catalog.names() {
            if is_work_name(&name) {
                self.drop_rebuilt(&name)?;
                if self.over || self.is_gone() || self.store().catalog.names().contains(&name) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

pub fn is_work_name(name: &str) -> bool {
    name.starts_with(WORK_PREFIX)
}

fn new_view(engine: &Arc<Engine>) -> Trx {
    let mut view = engine.new_trx(Arc::new(ThreadWaiter::new()), 97);
    engine.start(&mut view, Isolation::RepeatableRead, 0);
    view
}

impl Work {
    fn give_up(self, world: &World) -> Result<()> {
        match self {
            Work::Index { build, .. } => build.abort(),
            Work::Rebuild { name, load, .. } => {
                let aborted = load.map_or(Ok(()), TableLoad::abort);
                world.store().tables().drop_table(&name).and(aborted)
            }
        }
    }
}

impl Online {
    /// The new index is unique, and two rows have the same value.
    fn unique_twice(&self, state: &State) -> bool {
        if !matches!(self.work, Work::Index { kind: Kind::Tag, .. }) {
            return false;
        }
        let rows = state.tables[&self.name].rows.values();
        let mut tags: Vec<u16> = rows.filter_map(|row| row.tag).collect();
        let count = tags.len();
        tags.sort_unstable();
        tags.dedup();
        tags.len() < count
    }

    fn fill(&mut self, engine: &Arc<Engine>) -> Result<()> {
        let mut cursor = engine.store().cursor(self.table.clone());
        cursor.begin(&mut self.view, 0, LockChoice::default(), false)?;
        let mut more = cursor.seek(&mut self.view, Seek::First, &[])?;
        while more {
            let found = cursor.found().expect("handed out");
            let row = Row::decode(found.row);
            match &mut self.work {
                Work::Index { kind, build } => {
                    let (key, len) = kind.entry_key(found.pk, &row);
                    build.add(&key, len, kind.is_checked(&row), &kind.raw(&row))?;
                }
                Work::Rebuild { load: Some(load), .. } => super::table::load_row(load, &self.kinds, found.pk, &row)?,
                Work::Rebuild { .. } => unreachable!("the rebuilt table is new"),
            }
            more = cursor.next(&mut self.view)?;
        }
        match &mut self.work {
            Work::Index { build, .. } => build.finish(&self.view)?,
            Work::Rebuild { load, .. } => {
                let mut load = load.take().expect("begun");
                if let Err(e) = load.finish(&mut self.view) {
                    return load.abort().and(Err(e));
                }
            }
        }
        self.is_filled = true;
        Ok(())
    }

    fn round(&mut self, engine: &Arc<Engine>) -> Result<()> {
        let mut newer = new_view(engine);
        let done = match &mut self.work {
            Work::Index { kind, build } => {
                let kind = *kind;
                let each = &mut |change: &RowChange<'_>| {
                    if let Some(was) = change.was {
                        build.remove(&kind.entry_key(change.key, &Row::decode(was)).0)?;
                    }
                    if let Some(is) = change.is {
                        let row = Row::decode(is);
                        let (key, len) = kind.entry_key(change.key, &row);
                        build.put(&key, len, kind.is_checked(&row), &kind.raw(&row))?;
                    }
                    Ok(Followed::Whole)
                };
                self.alter.round(&mut self.view, &mut newer, each)
            }
            Work::Rebuild { rebuilt, .. } => {
                let to = Handle {
                    engine,
                    table: rebuilt.clone(),
                    kinds: &self.kinds,
                };
                let mut writes = engine.new_trx(Arc::new(ThreadWaiter::new()), 96);
                engine.start(&mut writes, Isolation::ReadCommitted, 0);
                let each = &mut |change: &RowChange<'_>| {
                    let (was, is) = (change.was.map(Row::decode), change.is.map(Row::decode));
                    match (was, is) {
                        // Its unique values stay.
                        (Some(was), Some(is)) if was.tag == is.tag => to.update(&mut writes, change.key, &was, &is)?,
                        (Some(was), _) => {
                            to.delete(&mut writes, change.key, &was)?;
                            return Ok(Followed::OlderRowOnly);
                        }
                        (None, Some(_)) if change.pass == Pass::First => return Ok(Followed::OlderRowOnly),
                        (None, Some(is)) => to.insert(&mut writes, change.key, &is)?,
                        (None, None) => {}
                    }
                    Ok(Followed::Whole)
                };
                let done = self.alter.round(&mut self.view, &mut newer, each);
                // After an error the table goes.
                let ended = engine.commit(&mut writes, false);
                done.and_then(|round| ended.map(|()| round))
            }
        };
        let mut older = std::mem::replace(&mut self.view, newer);
        engine.commit(&mut older, false)?;
        done.map(|_| ())
    }
}
