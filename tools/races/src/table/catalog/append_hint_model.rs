//! Model of `append_hint`: no row goes to a leaf of a load.
use super::append_hint::AppendHint;
use loom::sync::Mutex;
use loom::thread;
use std::sync::Arc;

const LEAF: u32 = 5;

/// What a page is. The first and the last have the header of a leaf of the tree.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Page {
    TreeLeaf,
    Free,
    LoadLeaf,
}

struct Table {
    hint: AppendHint,
    /// Page [`LEAF`], under its latch.
    page: Mutex<Page>,
}

impl Table {
    fn becomes(&self, what: Page) {
        *self.page.lock().unwrap() = what;
    }
    /// As `try_place_row`: judges the remembered leaf by its header, then asks whether the hint
    /// holds.
    fn append(&self) {
        let hint = self.hint.recall();
        let page = self.page.lock().unwrap();
        let by_hint = hint.leaf().is_some() && *page != Page::Free;
        if by_hint && !self.hint.holds(hint) {
            return;
        }
        // A descent finds the leaf if the tree has it.
        if by_hint || *page == Page::TreeLeaf {
            assert_eq!(
                *page,
                Page::TreeLeaf,
                "the row would go to a leaf that is not the tree's"
            );
            self.hint.note(hint, LEAF);
        }
    }
    /// A load of which the first page is [`LEAF`]; it is taken back.
    fn load(&self) {
        self.hint.begin_load();
        self.becomes(Page::LoadLeaf);
        self.hint.begin_load();
        self.becomes(Page::Free);
        self.hint.begin_load();
    }
}

/// The tree gives up a remembered leaf, a load gets its page and is taken back, and the tree gets
/// the page again. Two threads append meanwhile: neither takes the load's leaf for the tree's.
pub fn model_remembered_leaf_is_the_trees() {
    crate::check(3, || {
        let table = Arc::new(Table {
            hint: AppendHint::default(),
            page: Mutex::new(Page::TreeLeaf),
        });
        table.append();
        let loader = table.clone();
        let loads = thread::spawn(move || {
            loader.becomes(Page::Free);
            loader.load();
            loader.becomes(Page::TreeLeaf);
        });
        let other = table.clone();
        let appends = thread::spawn(move || other.append());
        table.append();
        loads.join().unwrap();
        appends.join().unwrap();
        table.append();
    });
}
