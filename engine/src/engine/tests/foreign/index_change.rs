//! DROP INDEX and ADD INDEX of a table of a [`Family`]: of its last index.
use super::family::Family;
use super::rebuild::Renamed;
use crate::base::Result;
use crate::engine::tests::fixture::change_of;
use crate::table::{ForeignKeySpec, IndexChange, IndexSpec, KeyChange};
use crate::txn::ThreadWaiter;
use std::sync::Arc;

fn names(indexes: &[IndexSpec]) -> Vec<&str> {
    indexes.iter().map(|index| &index.name[..]).collect()
}

impl Family {
    /// `unchecked`: a foreign key may lose the index that it needs.
    pub fn drop_last_index(&self, table: &str, unchecked: bool) -> Result<()> {
        let (spec, opened) = (self.shapes[table].spec(), self.store().tables().open_table(table)?);
        let (last, left) = spec.indexes.split_last().expect("it has an index");
        let keys = KeyChange {
            unchecked,
            ..KeyChange::default()
        };
        self.store().indexes().alter_indexes(&[IndexChange {
            drop: vec![&last.name],
            order: names(left),
            keys,
            ..change_of(&opened)
        }])
    }

    /// The family has the shape with the index; the table lacks it, and has these rows, whose
    /// columns in the index are integers.
    pub fn add_last_index(&self, table: &str, rows: &[String]) -> Result<()> {
        self.add_index_keeping(table, rows, self.foreign_of(table))
    }
    /// The table's foreign keys, as a statement reads them when it begins.
    pub fn foreign_of(&self, table: &str) -> Vec<ForeignKeySpec> {
        let table = self.table(table);
        let specs = table.layout().foreign.iter();
        specs.map(|spec| ForeignKeySpec::clone(spec)).collect()
    }
    /// `kept`: the table's foreign keys as the statement read them when it began.
    pub fn add_index_keeping(&self, table: &str, rows: &[String], kept: Vec<ForeignKeySpec>) -> Result<()> {
        self.add_index_renaming(table, rows, kept, &[])
    }
    /// `renamed`: columns of the table that get new names with it, (old, new).
    pub fn add_index_renaming(
        &self,
        table: &str,
        rows: &[String],
        kept: Vec<ForeignKeySpec>,
        renamed: Renamed<'_>,
    ) -> Result<()> {
        let (spec, opened) = (self.shapes[table].spec(), self.store().tables().open_table(table)?);
        let (last, before) = spec.indexes.split_last().expect("it has an index");
        let mut build = self.store().indexes().begin_build(&opened, last)?;
        let mut trx = self.engine.new_trx(Arc::new(ThreadWaiter::new()), 0);
        let added = rows.iter().try_for_each(|row| {
            let (key, user_len, has_null) = self.entry(table, row, before.len());
            build.add(&key, user_len, !has_null, b"")
        });
        let built = added.and_then(|()| build.finish(&trx));
        self.engine.commit(&mut trx, false)?;
        if let Err(e) = built {
            // The build's error is the one to tell, unless giving up failed too.
            return build.abort().and(Err(e));
        }
        let parts = spec.indexes.iter().map(|index| index.parts.clone());
        let keys = KeyChange {
            parts: [spec.pk_parts.clone()].into_iter().chain(parts).collect(),
            kept_foreign: kept.len(),
            renamed_columns: renamed.to_vec(),
            foreign: Some(kept),
            ..KeyChange::default()
        };
        self.store().indexes().alter_indexes(&[IndexChange {
            add: vec![&build],
            order: names(&spec.indexes),
            keys,
            ..change_of(&opened)
        }])
    }
}
