//! [`ForeignNames`]: which tables name which others in their foreign keys.
//!
//! Takes no latch. Called by `dictionary`, which holds it, and by `foreign_binding`.
use std::collections::{BTreeSet, HashMap};

/// Which tables' foreign keys name which parents. The parents need not exist.
#[derive(Default)]
pub struct ForeignNames {
    children: HashMap<String, BTreeSet<String>>,
    parents: HashMap<String, BTreeSet<String>>,
    /// Tables that an ALTER TABLE has moved out of the way: (their name before, their name now).
    /// Children stay bound to them until another table has the name.
    moved: Vec<(String, String)>,
    made: Vec<Made>,
}

/// A table that an ALTER TABLE makes.
struct Made {
    name: String,
    /// The table that it will replace.
    replaces: String,
    /// Columns that get new names with it, (old, new).
    renamed: Vec<(String, String)>,
}

impl ForeignNames {
    /// Replaces what is known of a child. Returns the parents that it had.
    pub fn set(&mut self, child: &str, parents: BTreeSet<String>) -> BTreeSet<String> {
        let old = self.parents.remove(child).unwrap_or_default();
        for parent in &old {
            debug_assert!(
                self.children
                    .get(parent)
                    .is_some_and(|children| children.contains(child)),
                "the parents of a child have it among their children"
            );
            if let Some(children) = self.children.get_mut(parent) {
                children.remove(child);
                if children.is_empty() {
                    self.children.remove(parent);
                }
            }
        }
        for parent in &parents {
            let children = self.children.entry(parent.clone()).or_default();
            children.insert(child.to_string());
        }
        if !parents.is_empty() {
            self.parents.insert(child.to_string(), parents);
        }
        old
    }
    /// Tables with a foreign key that names this parent, in the order of their names.
    pub fn children_of(&self, parent: &str) -> Vec<String> {
        let children = self.children.get(parent).into_iter().flatten();
        children.cloned().collect()
    }
    /// The name now of a table that was moved out of the way.
    pub fn moved_to(&self, name: &str) -> Option<&str> {
        let moved = self.moved.iter().find(|(before, _)| before == name);
        moved.map(|(_, now)| now.as_str())
    }
    /// The names by which foreign keys may mean the table that is called `name` now.
    pub fn names_of_parent(&self, name: &str) -> Vec<String> {
        let before = self
            .moved
            .iter()
            .filter(|(_, now)| now == name)
            .map(|(before, _)| before);
        before.cloned().chain([name.to_string()]).collect()
    }
    /// The table that this one, which is being made, will replace.
    pub fn replaced_by(&self, name: &str) -> Option<&str> {
        self.made_as(name).map(|made| made.replaces.as_str())
    }
    /// The columns of that table which get new names with this one, (old, new).
    pub fn renamed_by(&self, name: &str) -> Vec<(String, String)> {
        self.made_as(name).map_or_else(Vec::new, |made| made.renamed.clone())
    }
    fn made_as(&self, name: &str) -> Option<&Made> {
        self.made.iter().find(|made| made.name == name)
    }
    pub fn note_moved(&mut self, before: &str, now: &str) {
        debug_assert!(before != now, "a table moves to another name");
        self.moved.push((before.to_string(), now.to_string()));
    }
    pub fn note_made(&mut self, name: &str, replaces: &str, renamed: &[(&str, &str)]) {
        debug_assert!(
            name != replaces && self.replaced_by(name).is_none(),
            "a table is made to replace one other"
        );
        let owned = |(old, new): &(&str, &str)| (old.to_string(), new.to_string());
        self.made.push(Made {
            name: name.to_string(),
            replaces: replaces.to_string(),
            renamed: renamed.iter().map(owned).collect(),
        });
    }
    /// The table of that name is in its place, or gone.
    pub fn forget_alter(&mut self, name: &str) {
        self.moved.retain(|(before, now)| before != name && now != name);
        self.made.retain(|made| made.name != name);
    }
    /// Tables that have foreign keys.
    pub fn all_children(&self) -> Vec<String> {
        self.parents.keys().cloned().collect()
    }
}
