//! Nothing is left over: files and catalog agree, and purge leaves one entry for each row. Every
//! page that a file counts as used belongs to a tree or a chain.
use super::world::{Step, World};
use crate::base::Result;
use crate::btree::overflow;
use crate::index::ChainRef;
use crate::io::Disk;
use crate::space;
use crate::table::Table;

impl World {
    /// Every data file is a table's, every table has one.
    pub fn files_agree(&self, when: &str) -> Step {
        let mut expected = vec![space::file_name(1), space::file_name(2)];
        let tables = self.store().catalog.tables();
        expected.extend(tables.iter().map(|t| space::file_name(t.layout().id)));
        expected.sort();
        let mut found = self.disk.list().map_err(|e| e.to_string())?;
        found.retain(|n| n.ends_with(".slu") || n.starts_with("tmp_"));
        found.sort();
        match found == expected {
            true => Ok(()),
            false => Err(format!("{when}: files {found:?}, the catalog has {expected:?}")),
        }
    }

    /// Statistics are stored of tables that exist, and of no others.
    fn statistics_agree(&self) -> Step {
        let store = self.store();
        match store.statistics_keeper().tables_with_stored_statistics() {
            Ok(stored) => match stored.iter().find(|id| store.catalog.by_id(**id).is_none()) {
                Some(id) => Err(format!("statistics are stored of table {id}, which does not exist")),
                None => Ok(()),
            },
            // Damage is reported where it is met.
            Err(_) => Ok(()),
        }
    }

    /// After purge, with no active transaction.
    pub fn nothing_is_left(&mut self) -> Step {
        if self.over || !self.history.current().prepared.is_empty() {
            return Ok(());
        }
        self.statistics_agree()?;
        if let Err(e) = self.store().merge_scheduler().drain_changes() {
            return self.judge("merging", &e);
        }
        let pending = self.store().change.entries();
        if pending > 0 {
            let excused = self.lied || self.bad_luck();
            return if excused {
                Ok(())
            } else {
                Err(format!("{pending} entries cannot be merged"))
            };
        }
        for table in self.store().catalog.tables() {
            let rows = self.history.current().tables[&table.name()].rows.len() as u64;
            match self.count(&table) {
                Err(e) => return self.judge("counting", &e),
                Ok(count) => {
                    if count.entries.iter().any(|n| *n != rows) {
                        let name = table.name();
                        return Err(format!("{name}: {rows} rows, entries after purge {:?}", count.entries));
                    }
                    if count.pages != count.used {
                        let (name, pages, used) = (table.name(), count.pages, count.used);
                        return Err(format!("{name}: {used} pages count as used, {pages} are somebody's"));
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&self, table: &Table) -> Result<Count> {
        let store = self.store();
        let layout = table.layout();
        // Header and first bitmap.
        let mut pages = 2;
        let mut chains = Vec::new();
        let mut entries = Vec::new();
        let report = layout.clustered.tree.verify(&store.pool, &mut |_, value| {
            chains.extend(ChainRef::of(value));
            None
        })?;
        pages += report.pages.len() as u64;
        for chain in chains {
            pages += overflow::pages(&store.pool, layout.id, chain.first)?.len() as u64;
        }
        entries.push(report.entries);
        for s in &layout.secondary {
            let report = s.index.tree.verify(&store.pool, &mut |_, _| None)?;
            pages += report.pages.len() as u64;
            entries.push(report.entries);
            if let Some(delta) = &s.index.delta {
                pages += delta.tree.verify(&store.pool, &mut |_, _| None)?.pages.len() as u64;
            }
        }
        let used = space::usage(&store.pool, layout.id)?.used as u64;
        Ok(Count { pages, used, entries })
    }
}

struct Count {
    /// That have an owner.
    pages: u64,
    /// That the file counts as used.
    used: u64,
    /// Of each tree, the clustered one first.
    entries: Vec<u64>,
}
