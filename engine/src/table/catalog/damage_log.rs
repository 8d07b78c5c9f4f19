//! [`DamageLog`]: the engine's log, and errors that name table and index and the way out.
//!
//! Takes no latch, and no lock but the catalog's map. Called by every room above, and by the
//! engine.
use crate::base::ids::{FIRST_TABLE_FILE, UNDO_FILE};
use crate::base::{Damage, Error, Level, Result};
use crate::change::DELTA_BIT;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::table::Table;
use std::sync::Arc;

/// Takes a line of the log.
pub type Tell = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// The engine's log. Names tables and indexes as the user knows them.
#[derive(Clone)]
pub struct DamageLog {
    catalog: Arc<Catalog>,
    sink: Tell,
}

impl DamageLog {
    pub fn new(catalog: Arc<Catalog>, sink: Tell) -> DamageLog {
        DamageLog { catalog, sink }
    }

    /// Logs damage.
    pub fn error(&self, text: &str) {
        (self.sink)(Level::Error, text);
    }
    pub fn warning(&self, text: &str) {
        (self.sink)(Level::Warning, text);
    }
    pub fn info(&self, text: &str) {
        (self.sink)(Level::Info, text);
    }

    /// Adds the names that the catalog knows, and the way out, to a `Corrupt`, or to an `Io` of a
    /// page. Other errors pass unchanged.
    pub fn name_damage(&self, error: Error) -> Error {
        let named = |damage: Box<Damage>, then| {
            let what = self.describe(&damage, then);
            Box::new(Damage { what, ..*damage })
        };
        match error {
            Error::Corrupt(damage) => Error::Corrupt(named(damage, "; ")),
            Error::Io(damage) => Error::Io(named(damage, "; if that lasts: ")),
            error => error,
        }
    }

    fn describe(&self, damage: &Damage, then: &str) -> String {
        let what = &damage.what;
        if damage.file != 0 && damage.file < FIRST_TABLE_FILE {
            let (whose, saved) = match damage.file {
                UNDO_FILE => ("undo", ", or save the rows with sluice-check --dump"),
                _ => (
                    "the catalog",
                    ", or save the rows with mariadb-dump before the next start, which needs it",
                ),
            };
            return format!("{whose}: {what}{then}restore the engine's directory from a backup{saved}");
        }
        let Some(table) = self.catalog.by_id(damage.file) else {
            return what.clone();
        };
        let (layout, name) = (table.layout(), self.catalog.shown(&table));
        let copy = "ALTER TABLE ... FORCE copies the rows into a new file if they can all be read";
        let restore = "restore the table from a backup; sluice-check --dump saves the rows that can be read";
        match layout.secondary_by_id(damage.index & !DELTA_BIT) {
            Some(s) => format!(
                "table {name}, {}index {}: {what}{then}REPAIR TABLE rebuilds the index",
                if damage.index & DELTA_BIT != 0 {
                    "buffered changes of "
                } else {
                    ""
                },
                s.index.name
            ),
            None if damage.index == layout.clustered.id => {
                format!("table {name}, clustered index: {what}{then}{restore}")
            }
            None => format!("table {name}: {what}{then}{copy}, else {restore}"),
        }
    }

    /// Refuses a table that was broken when the engine was opened. The table may come back, so
    /// whatever it still needs has to wait.
    pub fn check_whole(&self, table: &Table) -> Result<()> {
        let Some(why) = table.broken() else { return Ok(()) };
        Err(Error::corrupt(format!(
            "table {} cannot be used: {why}; restore it from a backup, or drop it",
            self.catalog.shown(table)
        )))
    }
}
