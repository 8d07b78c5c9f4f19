//! The end of an ALTER TABLE that rebuilds a table of a [`Family`] and gives its columns new names.
use super::family::{fields, Family, Shape};
use crate::base::Result;
use crate::table::CreateMode;

/// Name of a table that is being made. A start drops it, as the server's does.
pub const REBUILT: &str = "rebuilt";

/// Columns with new names: (old, new).
pub type Renamed<'a> = &'a [(&'a str, &'a str)];

impl Family {
    /// The table gets the shape `to`, which has the new names, and these rows.
    pub fn rebuild(&self, to: &Shape, renamed: Renamed<'_>, rows: &[String], unchecked: bool) -> Result<()> {
        let tables = self.store().tables();
        self.begin_rebuild(to, renamed, rows, unchecked)?;
        let table = tables.open_table(&to.name)?;
        let replaced = tables.replace_table(&table, REBUILT, unchecked);
        if replaced.is_err() {
            // The replacement's error is the one to tell.
            tables.drop_table(REBUILT).ok();
        }
        replaced
    }

    /// The steps before the table is replaced.
    pub fn begin_rebuild(&self, to: &Shape, renamed: Renamed<'_>, rows: &[String], unchecked: bool) -> Result<()> {
        let mode = CreateMode {
            replaces: Some(&to.name),
            renamed_columns: renamed,
            in_place: true,
            kept_foreign: to.foreign.len(),
            unchecked,
        };
        let tables = self.store().tables();
        tables.create_table_as(REBUILT, &to.spec(), mode)?;
        let mut trx = self.begin();
        trx.foreign_key_checks = false;
        let table = tables.open_table(REBUILT)?;
        let mut load = self.store().loads().begin_load(&table)?.expect("it is empty");
        let added = rows.iter().try_for_each(|row| to.add_to_load(&mut load, &fields(row)));
        let filled = added.and_then(|()| load.finish(&mut trx));
        match filled {
            Ok(()) => self.engine.commit(&mut trx, true).map(drop),
            Err(e) => Err(e),
        }
    }

    pub fn drop_rebuilt(&self) -> Result<()> {
        let tables = self.store().tables();
        match tables.open_table(REBUILT) {
            Ok(_) => tables.drop_table(REBUILT),
            Err(_) => Ok(()),
        }
    }

    /// The first foreign key, if any, that does not name the columns that its shape has.
    pub fn misnamed(&self) -> Option<String> {
        for shape in self.shapes.values() {
            let table = self.table(&shape.name);
            let (found, expected) = (&table.layout().foreign, &shape.foreign);
            if !found.iter().map(|spec| &**spec).eq(expected) {
                return Some(format!("{}: {found:?}, expected {expected:?}", shape.name));
            }
            if let Some(keys) = table.foreign().as_ref() {
                let of_others = keys.referenced.iter().map(|key| &key.spec);
                let all = Vec::from_iter(self.shapes.values().flat_map(|shape| &shape.foreign));
                if let Some(old) = of_others.clone().find(|spec| !all.contains(&&***spec)) {
                    return Some(format!("{} is still bound to {old:?}", shape.name));
                }
            }
        }
        None
    }
}
