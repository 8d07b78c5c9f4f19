//! The Rust side: `repr(C)` structs, constants and `extern "C"` functions of a source file.
//!
//! # Safety
//! No code here is unsafe; the word is in the text that is read.
use super::tokens::{split, value, Tokens};
use super::Abi;

pub fn read(text: &str, abi: &mut Abi) {
    // Attributes are no tokens, so that this one needs a name of its own.
    let all = split(&text.replace("#[repr(C)]", " repr_c\n"));
    let mut tokens = Tokens::new(&all);
    let mut is_repr_c = false;
    while !tokens.peek().is_empty() {
        match tokens.next() {
            "repr_c" => is_repr_c = true,
            "pub" => {}
            "struct" if is_repr_c => {
                is_repr_c = false;
                let name = tokens.next().to_string();
                let fields = fields(&mut tokens, abi);
                abi.structs.insert(name, fields);
            }
            "type" if tokens.peek().starts_with("slc_") => {
                let name = tokens.next().to_string();
                tokens.expect("=");
                let of = a_type(&mut tokens, abi);
                abi.aliases.insert(name, of);
            }
            "const" if tokens.peek().starts_with("SLC_") => {
                let name = tokens.next().to_string();
                tokens.skip_to("=");
                let value = value(&mut tokens, &abi.constants);
                abi.constants.insert(name, value);
            }
            "fn" if tokens.peek().starts_with("slc_") => {
                let name = tokens.next().to_string();
                let signature = signature(&mut tokens, abi);
                abi.add_function(&name, signature);
            }
            _ => is_repr_c = false,
        }
    }
}

fn fields(tokens: &mut Tokens<'_>, abi: &Abi) -> Vec<String> {
    tokens.expect("{");
    let mut fields = Vec::new();
    while !tokens.skip("}") {
        tokens.skip("pub");
        let name = tokens.next();
        tokens.expect(":");
        fields.push(format!("{name}: {}", a_type(tokens, abi)));
        tokens.skip(",");
    }
    fields
}

/// Parameters and result, from the parenthesis on.
fn signature(tokens: &mut Tokens<'_>, abi: &Abi) -> String {
    tokens.expect("(");
    let mut types = Vec::new();
    while !tokens.skip(")") {
        let first = a_type(tokens, abi);
        types.push(match tokens.skip(":") {
            // That was the name.
            true => a_type(tokens, abi),
            false => first,
        });
        tokens.skip(",");
    }
    let result = match tokens.skip("->") {
        true => format!(" -> {}", a_type(tokens, abi)),
        false => String::new(),
    };
    format!("fn({}){result}", types.join(", "))
}

fn a_type(tokens: &mut Tokens<'_>, abi: &Abi) -> String {
    match tokens.next() {
        "*" => {
            let how = tokens.next();
            format!("*{how} {}", a_type(tokens, abi))
        }
        "[" => {
            let of = a_type(tokens, abi);
            tokens.expect(";");
            let count = value(tokens, &abi.constants);
            tokens.expect("]");
            format!("[{of}; {count}]")
        }
        "Option" => {
            tokens.expect("<");
            let of = a_type(tokens, abi);
            tokens.skip(",");
            tokens.expect(">");
            of
        }
        "unsafe" => {
            tokens.expect("extern");
            tokens.expect("fn");
            signature(tokens, abi)
        }
        "c_int" => "i32".into(),
        name => {
            if tokens.skip("<") {
                tokens.skip_to(">");
            }
            name.into()
        }
    }
}
