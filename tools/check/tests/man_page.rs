//! The man page that the packages carry has every option of `--help`.
use std::process::Command;

#[test]
fn man_page_has_all_options() {
    let said = Command::new(env!("CARGO_BIN_EXE_sluice-check"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(said.stdout).unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packages/man/sluice-check.1");
    let page = std::fs::read_to_string(page).unwrap();
    let options: Vec<&str> = help
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("--"))
        .collect();
    assert!(options.contains(&"--dump"), "{help}");
    for option in options {
        // In mdoc, `Fl -dump` is --dump, and `Fl q , -quiet` is -q, --quiet.
        let named = [format!("Fl {}", &option[1..]), format!(", {}", &option[1..])];
        assert!(
            named.iter().any(|name| page.contains(name)),
            "{option} is not in the man page"
        );
    }
}
