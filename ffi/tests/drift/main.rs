//! The headers (`plugin/sluice_abi.h` and `plugin/abi/`) and the library have the same ABI.
//! Functions are compared by the types of their parameters and results, structs by the names, types
//! and order of their fields, constants by value.
//!
//! `header.rs` and `library.rs` read one side each. Both write types in Rust's notation, without
//! names of parameters and with the names of function types and of `slc_err` resolved.
//!
//! # Safety No code here is unsafe; the word is in texts that the tests read.
mod header;
mod library;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What one side declares.
#[derive(Default, Debug)]
pub struct Abi {
    /// Parameters and result: `fn(*mut slc_engine) -> i32`.
    pub functions: BTreeMap<String, String>,
    /// `name: type` of each field, in order.
    pub structs: BTreeMap<String, Vec<String>>,
    pub constants: BTreeMap<String, i64>,
    /// Other names of types.
    pub aliases: BTreeMap<String, String>,
}

impl Abi {
    fn add_function(&mut self, name: &str, signature: String) {
        let before = self.functions.insert(name.into(), signature);
        assert!(before.is_none(), "{name} twice");
    }
    /// Puts types in place of their other names.
    fn resolve(&mut self) {
        let aliases = self.aliases.clone();
        let types = self.functions.values_mut().chain(self.structs.values_mut().flatten());
        types.for_each(|text| *text = resolved(text, &aliases));
    }
}

fn resolved(text: &str, aliases: &BTreeMap<String, String>) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let end = rest[start..].find(|c| !is_word(c)).map_or(rest.len(), |n| start + n);
        out.push_str(&rest[..start]);
        match aliases.get(&rest[start..end]) {
            Some(to) => out.push_str(&resolved(to, aliases)),
            None => out.push_str(&rest[start..end]),
        }
        rest = &rest[end..];
    }
    out + rest
}

/// The headers that `sluice_abi.h` includes, in its order.
fn header() -> Abi {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugin");
    let read = |name: &str| fs::read_to_string(plugin.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let all = read("sluice_abi.h");
    let included: Vec<&str> = all
        .lines()
        .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'))
        .collect();
    let there = fs::read_dir(plugin.join("abi")).expect("plugin/abi").count();
    assert_eq!(
        included.len(),
        there,
        "sluice_abi.h includes every header of plugin/abi"
    );
    let texts: Vec<String> = included.into_iter().map(read).collect();
    header::read(&texts.concat())
}

fn library() -> Abi {
    let mut abi = Abi::default();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("src") {
        let path = entry.expect("a file").path();
        library::read(&fs::read_to_string(path).expect("a source"), &mut abi);
    }
    abi.resolve();
    abi
}

#[test]
fn functions_have_the_same_types() {
    let (header, library) = (header(), library());
    assert!(header.functions.len() > 70, "the header was read");
    for (name, declared) in &header.functions {
        assert_eq!(Some(declared), library.functions.get(name), "{name}");
    }
    assert_eq!(
        header.functions.len(),
        library.functions.len(),
        "no function is in the library alone"
    );
}

#[test]
fn structs_have_the_same_fields_in_the_same_order() {
    let (header, library) = (header(), library());
    assert!(header.structs.len() > 20, "the header was read");
    for (name, declared) in &header.structs {
        assert_eq!(Some(declared), library.structs.get(name), "{name}");
    }
    assert_eq!(
        header.structs.len(),
        library.structs.len(),
        "no struct is in the library alone"
    );
}

#[test]
fn constants_have_the_same_values() {
    let (header, library) = (header(), library());
    assert!(library.constants.len() > 30, "the library was read");
    for (name, value) in &library.constants {
        assert_eq!(Some(value), header.constants.get(name), "{name}");
    }
}

/// What the other tests rely on: a difference of one type, of the order, or of a value is seen.
#[test]
fn differences_are_seen() {
    let declared = header::read(
        "#define X 1\nenum { SLC_A = 2, SLC_B, SLC_SIZE = 1 << 2 };\ntypedef int32_t slc_err; /* a comment; */
         typedef struct slc_x slc_x;
         typedef slc_err (*slc_cb)(void *ctx, const char *text, size_t);
         typedef struct { slc_x *x; uint64_t a, b; const char *const *names; uint8_t d[SLC_SIZE]; slc_cb cb;
                          int (*f)(volatile uint32_t *flag); } slc_s;
         slc_err slc_f(slc_x *, const slc_s *how, int);\nvoid slc_g(void);",
    );
    let mut defined = Abi::default();
    library::read(
        "pub type slc_err = i32;\npub const SLC_B: u32 = 3; pub const SLC_SIZE: usize = 4;
         pub type slc_cb = Option<unsafe extern \"C\" fn(ctx: *mut c_void, text: *const c_char, len: usize) -> slc_err>;
         /// Text.\n#[repr(C)]\n#[derive(Clone, Copy)]\npub struct slc_s {
           pub x: *mut slc_x, pub a: u64, pub b: u64,
           pub names: *const *const c_char, pub d: [u8; SLC_SIZE], pub cb: slc_cb,
           pub f: Option<unsafe extern \"C\" fn(*mut u32) -> c_int>, }
         #[no_mangle]\npub unsafe extern \"C\" fn slc_f(x: *mut slc_x, how: *const slc_s, n: i32,) -> slc_err {}
         #[no_mangle]\npub extern \"C\" fn slc_g() {}",
        &mut defined,
    );
    defined.resolve();
    assert_eq!(declared.functions["slc_f"], "fn(*mut slc_x, *const slc_s, i32) -> i32");
    assert_eq!(declared.functions, defined.functions);
    let fields = [
        "x: *mut slc_x",
        "a: u64",
        "b: u64",
        "names: *const *const c_char",
        "d: [u8; 4]",
        "cb: fn(*mut c_void, *const c_char, usize) -> i32",
        "f: fn(*mut u32) -> i32",
    ];
    assert_eq!(declared.structs["slc_s"], fields);
    assert_eq!(declared.structs, defined.structs);
    assert_eq!((declared.constants["SLC_B"], defined.constants["SLC_B"]), (3, 3));
}
