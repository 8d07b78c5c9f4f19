//! The C side: declarations of the header.
use super::tokens::{split, value, Tokens};
use super::Abi;

pub fn read(text: &str) -> Abi {
    let all = split(text);
    let mut tokens = Tokens::new(&all);
    let mut abi = Abi::default();
    while !tokens.peek().is_empty() {
        if tokens.skip("extern") {
            tokens.expect("{");
        } else if tokens.skip("}") || tokens.skip(";") {
            continue;
        } else if tokens.skip("enum") {
            constants(&mut tokens, &mut abi);
        } else if tokens.skip("typedef") {
            type_definition(&mut tokens, &mut abi);
        } else {
            let result = base(&mut tokens);
            let (result, name) = declarator(&mut tokens, result, &abi);
            let parameters = parameters(&mut tokens, &abi);
            abi.add_function(&name, function(&parameters, &result));
        }
    }
    abi.resolve();
    abi
}

fn constants(tokens: &mut Tokens<'_>, abi: &mut Abi) {
    tokens.expect("{");
    let mut next = 0;
    while !tokens.skip("}") {
        let name = tokens.next().to_string();
        if tokens.skip("=") {
            next = value(tokens, &abi.constants);
        }
        abi.constants.insert(name, next);
        next += 1;
        tokens.skip(",");
    }
}

fn type_definition(tokens: &mut Tokens<'_>, abi: &mut Abi) {
    if !tokens.skip("struct") {
        let of = base(tokens);
        let (of, name) = declarator(tokens, of, abi);
        abi.aliases.insert(name, of);
        return;
    }
    if !tokens.skip("{") {
        // Its fields are the engine's alone.
        tokens.skip_to(";");
        return;
    }
    let mut fields = Vec::new();
    while !tokens.skip("}") {
        let of = base(tokens);
        while !tokens.skip(";") {
            let (of, name) = declarator(tokens, of.clone(), abi);
            fields.push(format!("{name}: {of}"));
            tokens.skip(",");
        }
    }
    abi.structs.insert(tokens.next().into(), fields);
}

/// A type and whether it is const.
type Base = (String, bool);

fn base(tokens: &mut Tokens<'_>) -> Base {
    let (mut name, mut is_const) = (String::new(), false);
    loop {
        match tokens.peek() {
            "const" => is_const = true,
            "volatile" | "struct" => {}
            word if name.is_empty() => name = word.to_string(),
            _ => break,
        }
        tokens.next();
    }
    let of = match name.as_str() {
        "int" => "i32",
        "char" => "c_char",
        "void" => "c_void",
        "size_t" => "usize",
        "uint8_t" => "u8",
        "uint32_t" => "u32",
        "uint64_t" => "u64",
        "int32_t" => "i32",
        "int64_t" => "i64",
        "double" => "f64",
        other => other,
    };
    (of.to_string(), is_const)
}

/// The type and the name, which may be missing.
fn declarator(tokens: &mut Tokens<'_>, of: Base, abi: &Abi) -> (String, String) {
    let (mut of, mut is_const) = of;
    while tokens.skip("*") {
        of = format!("*{} {of}", if is_const { "const" } else { "mut" });
        is_const = tokens.skip("const");
    }
    if tokens.skip("(") {
        tokens.expect("*");
        let name = tokens.next().to_string();
        tokens.expect(")");
        let parameters = parameters(tokens, abi);
        return (function(&parameters, &of), name);
    }
    let is_name = |token: &str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let name = match is_name(tokens.peek()) {
        true => tokens.next().to_string(),
        false => String::new(),
    };
    if tokens.skip("[") {
        of = format!("[{of}; {}]", value(tokens, &abi.constants));
        tokens.expect("]");
    }
    (of, name)
}

fn parameters(tokens: &mut Tokens<'_>, abi: &Abi) -> Vec<String> {
    tokens.expect("(");
    let mut types = Vec::new();
    while !tokens.skip(")") {
        let of = base(tokens);
        types.push(declarator(tokens, of, abi).0);
        tokens.skip(",");
    }
    types.retain(|of| of != "c_void");
    types
}

fn function(parameters: &[String], result: &str) -> String {
    let result = match result {
        "c_void" => String::new(),
        result => format!(" -> {result}"),
    };
    format!("fn({}){result}", parameters.join(", "))
}
