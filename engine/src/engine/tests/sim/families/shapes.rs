//! The definitions of a family's tables.
use super::twin::{Actions, Lost, Pasts, Renamed, PARENT, SELF, TABLES};
use crate::engine::tests::foreign::family::Shape;

/// The names of a table's two columns. They change with each other.
pub fn names(table: usize, renamed: &Renamed) -> [&'static str; 2] {
    match (table, renamed[table]) {
        (PARENT, false) => ["id", "a"],
        (PARENT, true) => ["a", "id"],
        (_, false) => ["id", "ref"],
        (_, true) => ["ref", "id"],
    }
}

/// The columns, the clustered key, and the index of a table.
fn shape(table: usize, has_past: bool, is_lost: bool, [id, second]: [&str; 2]) -> Shape {
    let null = if table == PARENT { "" } else { "?" };
    let shape = match has_past {
        false => Shape::new(TABLES[table], &format!("{id} {second}{null}"), id),
        true => Shape::new(TABLES[table], &format!("{id} {second}{null} end"), &format!("{id} end")).with_past(),
    };
    match (table, is_lost) {
        (_, true) => shape,
        (PARENT, _) if has_past => shape.unique(&format!("{second} end")),
        (PARENT, _) => shape.unique(second),
        _ => shape.index(second),
    }
}

pub fn shapes(actions: &Actions, past: &Pasts, lost: &Lost, renamed: &Renamed) -> [Shape; 4] {
    let [p, c, g, s] = [PARENT, 1, 2, SELF].map(|table| names(table, renamed));
    let child = |table: usize, [_, second]: [&str; 2]| {
        let (name, parent) = [
            ("f", format!("p {}", p[1])),
            ("g", format!("c {}", c[0])),
            ("s", format!("s {}", s[0])),
        ][table - 1]
            .clone();
        let (on_delete, on_update) = actions[table - 1];
        let shape = shape(table, past[table], lost[table], names(table, renamed));
        shape.foreign(name, second, &parent, on_delete, on_update)
    };
    let parent = shape(PARENT, past[PARENT], lost[PARENT], p);
    [parent, child(1, c), child(2, g), child(SELF, s)]
}
