//! Words and signs of C and Rust, as far as the two sides of the ABI need them.

/// Without comments, preprocessor lines and attributes.
pub fn split(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("/*") {
            rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
        } else if rest.starts_with("//") || first == '#' {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if first == '"' {
            rest = rest[1..].find('"').map_or("", |end| &rest[end + 2..]);
        } else if rest.starts_with("->") || rest.starts_with("<<") {
            out.push(rest[..2].to_string());
            rest = &rest[2..];
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            out.push(rest[..end].to_string());
            rest = &rest[end..];
        } else {
            if !first.is_whitespace() {
                out.push(first.to_string());
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Reads tokens one after the other.
pub struct Tokens<'a> {
    all: &'a [String],
    at: usize,
}

impl<'a> Tokens<'a> {
    pub fn new(all: &'a [String]) -> Tokens<'a> {
        Tokens { all, at: 0 }
    }
    /// Empty at the end.
    pub fn peek(&self) -> &'a str {
        self.all.get(self.at).map_or("", String::as_str)
    }
    pub fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }
    pub fn skip(&mut self, token: &str) -> bool {
        let is_there = self.peek() == token;
        self.at += is_there as usize;
        is_there
    }
    pub fn expect(&mut self, token: &str) {
        let near = || {
            self.all[self.at.saturating_sub(8)..]
                .iter()
                .take(12)
                .cloned()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert!(self.peek() == token, "expected {token} in: {}", near());
        self.at += 1;
    }
    pub fn skip_to(&mut self, token: &str) {
        while !["", token].contains(&self.next()) {}
    }
}

/// A number, a name of `constants`, or one shifted by another.
pub fn value(tokens: &mut Tokens<'_>, constants: &std::collections::BTreeMap<String, i64>) -> i64 {
    let one = |word: &str| -> i64 {
        let digits = word.replace('_', "");
        let known = || *constants.get(word).unwrap_or_else(|| panic!("{word} is no number"));
        digits.parse().unwrap_or_else(|_| known())
    };
    let first = one(tokens.next());
    match tokens.skip("<<") {
        true => first << one(tokens.next()),
        false => first,
    }
}
