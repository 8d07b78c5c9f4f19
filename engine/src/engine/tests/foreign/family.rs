//! [`Family`]: tables of plain fields with foreign keys, written as texts, and the row maker that
//! knows such fields.
//!
//! Columns: `id ref? ~word -` are an integer, a nullable one, and a word. Words compare without
//! regard to case: an entry has the spelling as its value. `*body` is not indexed. `=two` is a
//! BINARY(2), `+bytes` a VARBINARY. Rows are their fields, `-` is NULL. In a shape with a past a
//! row is of the past unless its column `end` is [`NEVER`].
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::engine::tests::fixture::config;
use crate::engine::tests::foreign::shape_checker::{Meanwhile, ShapeChecker};
use crate::engine::Engine;
use crate::index::key_shape::{LevelForm, PartImage, PartShape, StringLevel};
use crate::io::Disk;
use crate::table::catalog::foreign_key::begins_with;
use crate::table::row::new_row::{changes_of, entries_of};
use crate::table::*;
use crate::txn::{ChildRow, Isolation, MadeEntry, MadeRow, MadeValue, ReferenceValue, RowMaker, ThreadWaiter, Trx};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use ForeignAction::{Cascade, NoAction, Restrict, SetNull};

#[derive(Clone)]
struct Column {
    name: String,
    kind: Kind,
    nullable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Word,
    Binary,
    Varbinary,
}

impl Kind {
    fn of(text: &str) -> Kind {
        match text.as_bytes()[0] {
            b'~' | b'*' => Kind::Word,
            b'=' => Kind::Binary,
            b'+' => Kind::Varbinary,
            _ => Kind::Integer,
        }
    }
    fn domain(self) -> &'static str {
        ["int", "word", "binary(2)", "string binary"][self as usize]
    }
    fn image(self) -> PartImage {
        let level = StringLevel {
            form: LevelForm::Plain,
            unit: 1,
            space: [b' ', 0, 0, 0],
        };
        match self {
            Kind::Integer | Kind::Binary => PartImage::Fixed(2),
            Kind::Word | Kind::Varbinary => PartImage::String(SmallVec::from_elem(level, 1)),
        }
    }
}

/// Columns, and for each whether it is descending.
type Parts = Vec<(usize, bool)>;

/// A table.
#[derive(Clone)]
pub struct Shape {
    pub name: String,
    columns: Vec<Column>,
    pk: Parts,
    /// Parts, and whether values are unique.
    indexes: Vec<(Parts, bool)>,
    pub foreign: Vec<ForeignKeySpec>,
    has_past: bool,
}

/// The end of a row of the present.
pub const NEVER: &str = "999";
thread_local! {
    /// What cascades write into the column `end`.
    pub static NOW: Cell<u32> = const { Cell::new(7) };
}

pub type Fields = Vec<Option<String>>;

pub fn fields(text: &str) -> Fields {
    let field = |field: &str| (field != "-").then(|| field.to_string());
    text.split_whitespace().map(field).collect()
}
pub fn text(fields: &Fields) -> String {
    let all: Vec<&str> = fields.iter().map(|field| field.as_deref().unwrap_or("-")).collect();
    all.join(" ")
}

impl Shape {
    /// `pk`: columns of the clustered key.
    pub fn new(name: &str, columns: &str, pk: &str) -> Shape {
        let column = |text: &str| Column {
            name: text.trim_matches(['?', '~', '*', '=', '+']).to_string(),
            kind: Kind::of(text),
            nullable: text.ends_with('?'),
        };
        let mut shape = Shape {
            name: name.into(),
            columns: columns.split_whitespace().map(column).collect(),
            pk: Vec::new(),
            indexes: Vec::new(),
            foreign: Vec::new(),
            has_past: false,
        };
        shape.pk = shape.parts(pk);
        shape
    }
    fn parts(&self, text: &str) -> Parts {
        let part = |text: &str| {
            let name = text.trim_start_matches('-');
            let at = self.columns.iter().position(|c| c.name == name).expect("a column");
            (at, text.starts_with('-'))
        };
        text.split_whitespace().map(part).collect()
    }
    /// `-a` is descending.
    pub fn index(mut self, columns: &str) -> Shape {
        self.indexes.push((self.parts(columns), false));
        self
    }
    pub fn unique(mut self, columns: &str) -> Shape {
        self.indexes.push((self.parts(columns), true));
        self
    }
    pub fn without_last_index(mut self) -> Shape {
        self.indexes.pop();
        self
    }
    /// As with system versioning: it has a column `end`.
    pub fn with_past(mut self) -> Shape {
        self.has_past = true;
        self
    }
    fn is_past(&self, row: &Fields) -> bool {
        self.has_past && row[self.column("end")].as_deref() != Some(NEVER)
    }
    /// `to`: the parent and its columns.
    pub fn foreign(
        mut self,
        name: &str,
        columns: &str,
        to: &str,
        on_delete: ForeignAction,
        on_update: ForeignAction,
    ) -> Shape {
        let names = |text: &str| Vec::from_iter(text.split_whitespace().map(str::to_string));
        let (parent, parent_columns) = to.split_once(' ').expect("columns");
        self.foreign.push(ForeignKeySpec {
            name: format!("db/{name}"),
            columns: names(columns),
            parent: parent.into(),
            parent_columns: names(parent_columns),
            on_delete,
            on_update,
        });
        self
    }

    fn key_parts(&self, parts: &Parts) -> Vec<KeyPart> {
        let part = |(at, desc): &(usize, bool)| {
            let column = &self.columns[*at];
            KeyPart {
                column: column.name.clone(),
                domain: column.kind.domain().into(),
                is_whole: true,
                shape: PartShape {
                    nullable: column.nullable,
                    inverted: *desc,
                    image: column.kind.image(),
                },
            }
        };
        parts.iter().map(part).collect()
    }
    pub fn spec(&self) -> TableSpec {
        let index = |(i, (parts, unique)): (usize, &(Parts, bool))| IndexSpec {
            name: format!("i{i}"),
            unique: *unique,
            parts: self.key_parts(parts),
            ..IndexSpec::default()
        };
        TableSpec {
            pk_parts: self.key_parts(&self.pk),
            indexes: self.indexes.iter().enumerate().map(index).collect(),
            foreign: self.foreign.clone(),
            marks_past: self.has_past,
            ..TableSpec::default()
        }
    }

    fn key(&self, parts: &Parts, row: &Fields) -> Vec<u8> {
        let mut key = Vec::new();
        for (at, desc) in parts {
            let (column, mut image) = (&self.columns[*at], Vec::new());
            if column.nullable {
                image.push(row[*at].is_some() as u8);
            }
            match &row[*at] {
                None => assert!(column.nullable, "{} of {} is NULL", column.name, self.name),
                Some(word) if column.kind == Kind::Word => {
                    image.extend(word.to_lowercase().bytes());
                    image.extend([0, 0]);
                }
                Some(bytes) if column.kind == Kind::Binary => image.extend(bytes.bytes()),
                Some(bytes) if column.kind == Kind::Varbinary => {
                    image.extend(bytes.bytes());
                    image.extend([0, 0]);
                }
                Some(number) => {
                    let number: i16 = number.parse().expect("a number");
                    image.extend((number as u16 ^ 0x8000).to_be_bytes());
                }
            }
            key.extend(image.iter().map(|byte| if *desc { !byte } else { *byte }));
        }
        key
    }
    fn pk(&self, row: &Fields) -> Vec<u8> {
        self.key(&self.pk, row)
    }
    fn encode(&self, row: &Fields) -> Vec<u8> {
        let mark = if self.is_past(row) { 0x40 } else { 0 };
        [&[1, mark], text(row).as_bytes()].concat()
    }
    pub fn decode(row: &[u8]) -> Fields {
        fields(std::str::from_utf8(&row[2..]).expect("text"))
    }
    pub fn made(&self, row: &Fields) -> MadeRow {
        let pk = self.pk(row);
        let entry = |(i, (parts, _)): (usize, &(Parts, bool))| {
            let user_key = self.key(parts, row);
            let words = parts.iter().filter(|(at, _)| self.columns[*at].kind == Kind::Word);
            let spellings: Vec<&str> = words.map(|(at, _)| row[*at].as_deref().unwrap_or("")).collect();
            MadeEntry {
                index: i as u32,
                user_key_len: user_key.len() as u32,
                has_null: parts.iter().any(|(at, _)| row[*at].is_none()),
                key: [user_key, pk.clone()].concat(),
                value: spellings.join(" ").into_bytes(),
            }
        };
        MadeRow {
            row: self.encode(row),
            entries: self.indexes.iter().enumerate().map(entry).collect(),
            keeps_unindexed: false,
            pk,
        }
    }
    pub fn add_to_load(&self, load: &mut TableLoad, row: &Fields) -> Result<()> {
        let made = self.made(row);
        load.add(&made.pk, &made.row, &entries_of(&made))
    }
    /// The columns of the foreign keys that no index serves stay.
    fn keeps_unindexed(&self, old: &Fields, new: &Fields) -> bool {
        let keys = [&self.pk]
            .into_iter()
            .chain(self.indexes.iter().map(|(parts, _)| parts));
        let keys = Vec::from_iter(keys.map(|parts| self.key_parts(parts)));
        let lacks_index = |spec: &&ForeignKeySpec| !keys.iter().any(|parts| begins_with(parts, &spec.columns));
        let columns = self.foreign.iter().filter(lacks_index).flat_map(|spec| &spec.columns);
        let mut columns = columns.map(|name| self.column(name));
        columns.all(|at| old[at] == new[at])
    }
    fn column(&self, name: &str) -> usize {
        self.columns.iter().position(|c| c.name == name).expect("a column")
    }
    /// The values as they compare; None: one is NULL.
    fn values(&self, columns: &[String], row: &Fields) -> Option<Vec<String>> {
        let value = |name: &String| {
            let at = self.column(name);
            let value = row[at].as_ref()?;
            Some(match self.columns[at].kind {
                Kind::Word => value.to_lowercase(),
                _ => value.clone(),
            })
        };
        columns.iter().map(value).collect()
    }
}

pub type Shapes = Arc<BTreeMap<String, Shape>>;

/// Makes the rows of cascades.
pub struct Maker(pub Shapes);

impl RowMaker for Maker {
    fn entries(&mut self, of: ChildRow<'_>, to: &mut MadeRow) -> Result<()> {
        *to = self.0[of.table].made(&Shape::decode(of.row));
        assert_eq!(to.pk, of.pk, "the row is the key's");
        Ok(())
    }
    fn changed(
        &mut self,
        of: ChildRow<'_>,
        foreign: u32,
        value: ReferenceValue<'_>,
        before: &mut MadeRow,
        after: &mut MadeRow,
        past: &mut MadeRow,
    ) -> Result<()> {
        let shape = &self.0[of.table];
        let spec = &shape.foreign[foreign as usize];
        let mut row = Shape::decode(of.row);
        *before = shape.made(&row);
        assert_eq!(before.pk, of.pk, "the row is the key's");
        for (column, parent_column) in spec.columns.iter().zip(&spec.parent_columns) {
            row[shape.column(column)] = match value {
                ReferenceValue::Null => None,
                ReferenceValue::Parent { table, row, .. } => {
                    Shape::decode(row)[self.0[table].column(parent_column)].clone()
                }
            };
        }
        *after = shape.made(&row);
        after.keeps_unindexed = shape.keeps_unindexed(&Shape::decode(of.row), &row);
        if shape.has_past && before.row != after.row {
            let mut ended = Shape::decode(of.row);
            ended[shape.column("end")] = Some(NOW.get().to_string());
            *past = shape.made(&ended);
        }
        Ok(())
    }
    fn ended(&mut self, of: ChildRow<'_>, before: &mut MadeRow, after: &mut MadeRow) -> Result<()> {
        let shape = &self.0[of.table];
        let mut row = Shape::decode(of.row);
        *before = shape.made(&row);
        row[shape.column("end")] = Some(NOW.get().to_string());
        *after = shape.made(&row);
        Ok(())
    }
    fn reference(&mut self, of: ChildRow<'_>, foreign: u32, to: &mut Vec<MadeValue>) -> Result<()> {
        let (shape, row) = (&self.0[of.table], Shape::decode(of.row));
        for name in &shape.foreign[foreign as usize].columns {
            let parts: Parts = vec![(shape.column(name), false)];
            let described = shape.key_parts(&parts).swap_remove(0);
            let image = shape.key(&parts, &row);
            let nulls = described.shape.nullable as usize;
            let is_null = described.shape.nullable && image[0] == 0;
            to.push(MadeValue {
                domain: described.domain,
                image: (!is_null).then(|| image[nulls..].to_vec()),
            });
        }
        Ok(())
    }
}

/// An engine with such tables.
#[derive(Clone)]
pub struct Family {
    pub engine: Arc<Engine>,
    pub shapes: Shapes,
}

impl Family {
    /// Makes the tables, parents first, or in any order.
    pub fn create(disk: Arc<dyn Disk>, shapes: &[Shape]) -> Family {
        Family::create_in(Engine::open(disk, config()).expect("fresh engine"), shapes)
    }
    pub fn create_in(engine: Arc<Engine>, shapes: &[Shape]) -> Family {
        for shape in shapes {
            let mode = CreateMode {
                unchecked: true,
                ..CreateMode::default()
            };
            let created = engine
                .store()
                .tables()
                .create_table_as(&shape.name, &shape.spec(), mode);
            created.expect("create");
        }
        Family::of(engine, shapes)
    }
    pub fn reopen(disk: Arc<dyn Disk>, shapes: &[Shape]) -> Result<Family> {
        Ok(Family::of(Engine::open(disk, config())?, shapes))
    }
    pub fn of(engine: Arc<Engine>, shapes: &[Shape]) -> Family {
        let named = shapes.iter().map(|shape| (shape.name.clone(), shape.clone()));
        Family {
            engine,
            shapes: Arc::new(named.collect()),
        }
    }
    pub fn store(&self) -> &Arc<Store> {
        self.engine.store()
    }
    pub fn table(&self, name: &str) -> Arc<Table> {
        self.store().tables().open_table(name).expect("open")
    }
    fn opened(&self, name: &str) -> Result<Arc<Table>> {
        self.store().tables().open_table(name)
    }
    /// Waits for no lock.
    pub fn begin_at(&self, isolation: Isolation) -> Trx {
        let mut trx = self.engine.new_trx(Arc::new(ThreadWaiter::new()), 0);
        trx.row_maker = Some(Box::new(Maker(self.shapes.clone())));
        self.engine.start(&mut trx, isolation, 0);
        trx
    }
    pub fn begin(&self) -> Trx {
        self.begin_at(Isolation::ReadCommitted)
    }
    pub fn commit(&self, mut trx: Trx) {
        self.engine.commit(&mut trx, true).expect("commit");
    }
    pub fn rollback(&self, mut trx: Trx) {
        self.engine.rollback(&mut trx).expect("rollback");
    }
    /// Everything is buffered from now on, or nothing is.
    pub fn buffer(&self, all: bool) {
        let (buffering, mode) = if all { (5, 1) } else { (0, 0) };
        self.engine.set("change_buffering", buffering).expect("set");
        self.engine.set("change_buffer_test_mode", mode).expect("set");
    }

    pub fn insert(&self, trx: &mut Trx, table: &str, row: &str) -> Result<()> {
        let made = self.shapes[table].made(&fields(row));
        let list = entries_of(&made);
        let new = NewRow::new(&made.pk, &made.row, &list);
        let opened = self.opened(table)?;
        self.store().rows().insert(trx, &opened, &new, false)
    }
    /// Of the row's entry in an index: the key, the length of the index key in it, and whether it
    /// has a NULL.
    pub fn entry(&self, table: &str, row: &str, index: usize) -> (Vec<u8>, usize, bool) {
        let mut made = self.shapes[table].made(&fields(row));
        let entry = made.entries.swap_remove(index);
        (entry.key, entry.user_key_len as usize, entry.has_null)
    }
    pub fn delete(&self, trx: &mut Trx, table: &str, row: &str) -> Result<()> {
        let made = self.shapes[table].made(&fields(row));
        let (opened, rows) = (self.opened(table)?, self.store().rows());
        rows.delete(trx, &opened, &made.pk, &entries_of(&made))
    }
    pub fn update(&self, trx: &mut Trx, table: &str, from: &str, to: &str) -> Result<()> {
        let (shape, opened, rows) = (&self.shapes[table], self.opened(table)?, self.store().rows());
        let (old_fields, new_fields) = (fields(from), fields(to));
        let (old, new) = (shape.made(&old_fields), shape.made(&new_fields));
        let (old_list, new_list) = (entries_of(&old), entries_of(&new));
        if old.pk != new.pk || shape.is_past(&old_fields) != shape.is_past(&new_fields) {
            let new = NewRow::new(&new.pk, &new.row, &new_list);
            return rows.move_row(trx, &opened, &old.pk, &old_list, &new, false);
        }
        let changes = changes_of(&old_list, &new_list);
        let update = RowUpdate {
            pk: &new.pk,
            row: &new.row,
            changes: &changes,
            pk_rewritten: shape.pk.iter().any(|(at, _)| old_fields[*at] != new_fields[*at]),
            keeps_unindexed: shape.keeps_unindexed(&old_fields, &new_fields),
        };
        rows.update_row(trx, &opened, &update, false)
    }
    /// As one transaction.
    pub fn does(&self, body: impl FnOnce(&mut Trx) -> Result<()>) -> Result<()> {
        let mut trx = self.begin();
        let done = body(&mut trx);
        match done {
            Ok(()) => self.commit(trx),
            Err(_) => self.rollback(trx),
        }
        done
    }
    pub fn fill(&self, table: &str, rows: &[&str]) {
        let all = |trx: &mut Trx| rows.iter().try_for_each(|row| self.insert(trx, table, row));
        self.does(all).expect("insert");
    }

    pub fn rows_seen(&self, trx: &mut Trx, table: &str) -> Result<Vec<String>> {
        let mut cursor = self.store().cursor(self.table(table));
        cursor.begin(trx, 0, LockChoice::default(), false)?;
        let mut rows = Vec::new();
        let mut more = cursor.seek(trx, Seek::First, &[])?;
        while more {
            let row = cursor.found().expect("handed out").row;
            rows.push(text(&Shape::decode(row)));
            more = cursor.next(trx)?;
        }
        Ok(rows)
    }
    /// In the order of the clustered key.
    pub fn rows(&self, table: &str) -> Vec<String> {
        let mut trx = self.begin_at(Isolation::RepeatableRead);
        let rows = self.rows_seen(&mut trx, table).expect("scan");
        self.commit(trx);
        rows
    }

    /// A child row without its parent row.
    pub fn orphan(&self) -> Option<String> {
        for shape in self.shapes.values() {
            let of_now = |shape: &Shape, row: &String| Some(fields(row)).filter(|row| !shape.is_past(row));
            let rows: Vec<Fields> = self
                .rows(&shape.name)
                .iter()
                .filter_map(|row| of_now(shape, row))
                .collect();
            for spec in &shape.foreign {
                let parent = &self.shapes[&spec.parent];
                let parents = self.rows(&parent.name);
                let keys: Vec<_> = parents
                    .iter()
                    .filter_map(|row| parent.values(&spec.parent_columns, &of_now(parent, row)?))
                    .collect();
                let is_orphan = |row: &&Fields| {
                    let wanted = shape.values(&spec.columns, row);
                    wanted.is_some_and(|wanted| !keys.contains(&wanted))
                };
                if let Some(row) = rows.iter().find(is_orphan) {
                    return Some(format!(
                        "{}: row {} has no parent by {}",
                        shape.name,
                        text(row),
                        spec.name
                    ));
                }
            }
        }
        None
    }
    /// CHECK TABLE of all tables, and no orphan.
    pub fn check(&self) {
        for shape in self.shapes.values() {
            let mut trx = self.begin_at(Isolation::RepeatableRead);
            let table = self.table(&shape.name);
            let mut checker = ShapeChecker {
                shape,
                findings: Vec::new(),
                orphans: Vec::new(),
            };
            let sound = self
                .store()
                .check_table(&mut trx, &table, CheckLevel::Extended, &mut checker);
            assert_eq!(sound, Ok(true), "{}: {:#?}", shape.name, checker.findings);
            assert_eq!(checker.orphans, [] as [String; 0], "of {}", shape.name);
            self.commit(trx);
        }
        assert_eq!(self.orphan(), None);
    }
    /// What CHECK TABLE ... EXTENDED says of the foreign keys of a table. `meanwhile` is called at
    /// the beginning of each stage, with the number of stages that follow.
    pub fn orphans_of(&self, name: &str, meanwhile: &mut dyn FnMut(u32)) -> Vec<String> {
        let mut checker = Meanwhile {
            shape: ShapeChecker {
                shape: &self.shapes[name],
                findings: Vec::new(),
                orphans: Vec::new(),
            },
            meanwhile,
        };
        let mut trx = self.begin_at(Isolation::RepeatableRead);
        let table = self.table(name);
        let sound = self
            .store()
            .check_table(&mut trx, &table, CheckLevel::Extended, &mut checker);
        assert_eq!(sound, Ok(true), "{name}: {:#?}", checker.shape.findings);
        self.commit(trx);
        checker.shape.orphans
    }
}

/// The error in short: which foreign key refuses.
pub fn why(done: Result<()>) -> String {
    let name = |e: &Error| {
        let fault = e.foreign_fault().expect("of a foreign key");
        format!("{} of {}", fault.constraint.trim_start_matches("db/"), fault.child)
    };
    match done {
        Ok(()) => "done".into(),
        Err(e @ Error::NoReferencedRow(_)) => format!("no parent: {}", name(&e)),
        Err(e @ Error::RowIsReferenced(_)) => format!("children: {}", name(&e)),
        Err(e @ Error::ForeignDuplicate(_)) => format!("duplicate: {}", name(&e)),
        Err(e) => e.to_string(),
    }
}

impl Family {
    pub fn add_to(&self, bulk: &mut BulkInsert, trx: &mut Trx, table: &str, row: &str) -> Result<()> {
        let made = self.shapes[table].made(&fields(row));
        bulk.add(trx, &made.pk, &made.row, &entries_of(&made))
    }
    pub fn add_to_load(&self, load: &mut TableLoad, table: &str, row: &str) -> Result<()> {
        self.shapes[table].add_to_load(load, &fields(row))
    }
}
