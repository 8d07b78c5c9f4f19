//! All statistics as rows, for INFORMATION_SCHEMA. Called by the C ABI.
use crate::base::Result;
use crate::table::optimizer::keeper::StatisticsKeeper;

/// A table, or one of its indexes.
#[derive(Clone, Debug, Default)]
pub struct StatisticsRow<'a> {
    pub table: &'a str,
    /// Empty: the row is about the table.
    pub index: &'a str,
    /// The user's own notes on the table.
    pub schema: &'a [u8],
    pub rows: u64,
    /// Rows changed since the statistics were computed.
    pub changes: u64,
    /// Seconds since the epoch; 0 = never.
    pub computed_s: u64,
    pub updated_s: u64,
    /// Kept over a restart.
    pub persistent: bool,
    /// Of a table: pages of the clustered index.
    pub pages: u64,
    /// Of a table: pages of all other indexes.
    pub leaf_pages: u64,
    pub pages_read: u64,
    /// Different values of the first 1, 2, ... parts.
    pub distinct: &'a [u64],
}

impl StatisticsKeeper {
    /// Hands out a row for each table, followed by one for each of its indexes. Of a table without
    /// statistics there is the first row alone, with `computed_s` 0.
    pub fn statistics_rows(&self, each: &mut dyn FnMut(&StatisticsRow<'_>)) -> Result<()> {
        let now_s = self.pool.disk().wall_s();
        for table in self.catalog.tables() {
            let layout = table.layout();
            if layout.temporary || table.is_gone() {
                continue;
            }
            let found = self.statistics(&table)?.unwrap_or_default();
            let (name, state) = (table.name(), &table.statistics);
            let computed_at = state.marks.lock().computed_at;
            let pages = |ordinal: usize| found.indexes.get(ordinal).map_or(0, |of| of.pages);
            let of_table = StatisticsRow {
                table: &name,
                schema: &layout.schema,
                rows: found.rows,
                changes: state.counts.changes().saturating_sub(computed_at),
                computed_s: found.computed_s,
                updated_s: state.look_for_changes(now_s),
                persistent: state.is_persistent(&self.settings),
                pages: pages(0),
                leaf_pages: (1..found.indexes.len()).map(pages).sum(),
                ..StatisticsRow::default()
            };
            each(&of_table);
            let secondary = layout.secondary.iter().map(|s| &s.index);
            for index in std::iter::once(&layout.clustered).chain(secondary) {
                let Some(of) = found.of(index.id) else { continue };
                each(&StatisticsRow {
                    index: &index.name,
                    pages: of.pages,
                    leaf_pages: of.leaf_pages,
                    pages_read: of.pages_read,
                    distinct: &of.distinct,
                    ..of_table
                });
            }
        }
        Ok(())
    }
}
