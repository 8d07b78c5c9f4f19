//! The definitions of a family's tables.
use super::twin::{Actions, Lost, Pasts, PARENT, SELF, TABLES};
use crate::engine::tests::foreign::family::Shape;

/// The columns, the clustered key, and the index of a table.
fn shape(table: usize, has_past: bool, is_lost: bool) -> Shape {
    let second = if table == PARENT { "a" } else { "ref?" };
    let shape = match has_past {
        false => Shape::new(TABLES[table], &format!("id {second}"), "id"),
        true => Shape::new(TABLES[table], &format!("id {second} end"), "id end").with_past(),
    };
    match (table, is_lost) {
        (_, true) => shape,
        (PARENT, _) if has_past => shape.unique("a end"),
        (PARENT, _) => shape.unique("a"),
        _ => shape.index("ref"),
    }
}

pub fn shapes(actions: &Actions, past: &Pasts, lost: &Lost) -> [Shape; 4] {
    let child = |table: usize| {
        let (name, parent) = [("f", "p a"), ("g", "c id"), ("s", "s id")][table - 1];
        let (on_delete, on_update) = actions[table - 1];
        shape(table, past[table], lost[table]).foreign(name, "ref", parent, on_delete, on_update)
    };
    let parent = shape(PARENT, past[PARENT], lost[PARENT]);
    [parent, child(1), child(2), child(SELF)]
}
