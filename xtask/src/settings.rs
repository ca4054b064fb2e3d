//! `cargo xtask settings`: docs/settings.md, the reference of all settings, from the code that
//! reads them.
//!
//! The types of `platform/config` that are read from a file have a comment on each field with its
//! unit, its default and the reason for it; this page has the same words.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use syn::{Attribute, Expr, ExprLit, Fields, ImplItem, Item, ItemStruct, Lit, Meta, Type};

const PAGE: &str = "docs/settings.md";
const FOLDER: &str = "platform/config/src";
/// Drivers with settings of their own: the type `Options` in `<driver>/options.rs` of this folder.
const DRIVERS: [&str; 2] = ["openflow", "bridge"];
const DRIVERS_FOLDER: &str = "agents/switch/src/drivers";
/// The section of the settings of a driver, inside of that of the switch agent.
const DRIVERS_SECTION: &str = "switch_agent.driver_options";
/// Sections in the order of the page.
const ORDER: [&str; 6] =
    ["tic", "router", "fabric", "switch_agent", "operating_agent", "telemetry"];
const HEAD: &str = "\
# Settings

For administrators. Written by `cargo xtask settings` from the comments in the code; do not edit.

`fabricast tic|router|fabric|switch-agent|operating-agent --config FILE` reads its own section of
`FILE`, in TOML, and `[telemetry]`. A variable `FABRICAST_<SECTION>__<KEY>` overrides the file, as
`FABRICAST_TIC__LISTEN`, and a flag overrides both. `--check-config` checks and exits. Durations are
texts such as `\"250ms\"` or `\"10s\"`. A key that does not exist is refused.
";

/// Writes the page. True: nothing can fail without an error.
///
/// # Errors
///
/// Code that cannot be read, or a page that cannot be written.
pub(crate) fn write(root: &Path) -> Result<bool> {
    fs::write(root.join(PAGE), render(root)?).with_context(|| format!("write {PAGE}"))?;
    Ok(true)
}

/// The page that is not what the code says, if there is one.
///
/// # Errors
///
/// Code that cannot be read.
pub(crate) fn check(root: &Path) -> Result<Option<&'static str>> {
    let present = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    Ok((present != render(root)?).then_some(PAGE))
}

/// Types of the settings by name, and the type of each section.
#[derive(Default)]
struct Types {
    structs: BTreeMap<String, ItemStruct>,
    sections: BTreeMap<String, String>,
}

fn render(root: &Path) -> Result<String> {
    let mut types = Types::default();
    for entry in root.join(FOLDER).read_dir().context(FOLDER)? {
        types.read(&entry?.path())?;
    }
    let mut page = HEAD.to_owned();
    for section in ORDER {
        let name = types.sections.get(section).with_context(|| format!("no type of {section}"))?;
        types.add(&mut page, section, name, "")?;
        if DRIVERS_SECTION.starts_with(section) {
            for driver in DRIVERS {
                let mut types = Types::default();
                types.read(&root.join(DRIVERS_FOLDER).join(driver).join("options.rs"))?;
                let about = format!("With `driver = \"{driver}\"`:\n");
                types.add(&mut page, DRIVERS_SECTION, "Options", &about)?;
            }
        }
    }
    Ok(page)
}

impl Types {
    fn read(&mut self, path: &Path) -> Result<()> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let file = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        for item in file.items {
            match item {
                Item::Struct(item) => {
                    self.structs.insert(item.ident.to_string(), item);
                }
                Item::Impl(item) if is_role(&item) => {
                    let (mut section, mut raw) = (None, None);
                    for inner in item.items {
                        match inner {
                            ImplItem::Const(one) if one.ident == "SECTION" => {
                                section = text_of(&one.expr);
                            }
                            ImplItem::Type(one) if one.ident == "Raw" => raw = name_of(&one.ty),
                            _ => {}
                        }
                    }
                    if let (Some(section), Some(raw)) = (section, raw) {
                        self.sections.insert(section, raw);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds a section, and after it those inside it.
    fn add(&self, page: &mut String, section: &str, name: &str, about: &str) -> Result<()> {
        let one = self.structs.get(name).with_context(|| format!("no type {name}"))?;
        let about = if about.is_empty() { inner_words(&doc_of(&one.attrs)) } else { about.into() };
        let title = section.trim_end_matches("[]");
        let brackets = if title == section { ["[", "]"] } else { ["[[", "]]"] };
        write!(page, "\n## `{}{title}{}`\n\n", brackets[0], brackets[1])?;
        if !about.is_empty() {
            writeln!(page, "{}\n", about.trim())?;
        }
        page.push_str("| key | value | |\n| --- | --- | --- |\n");
        let Fields::Named(fields) = &one.fields else { return Ok(()) };
        let mut inside = Vec::new();
        for field in &fields.named {
            let key = field.ident.as_ref().context("a named field")?.to_string();
            let doc = doc_of(&field.attrs).replace('|', "\\|");
            let value = self.value(&field.ty);
            writeln!(page, "| `{key}` | {value} | {doc} |")?;
            if let Some((inner, is_list)) = self.section_in(&field.ty) {
                let list = if is_list { "[]" } else { "" };
                inside.push((format!("{title}.{key}{list}"), inner));
            }
        }
        for (section, inner) in inside {
            self.add(page, &section, &inner, "")?;
        }
        Ok(())
    }

    /// The type of the section that a field is, and true if there may be several.
    fn section_in(&self, ty: &Type) -> Option<(String, bool)> {
        let name = name_of(ty)?;
        match &*name {
            "Option" | "Vec" => {
                let (inner, is_list) = self.section_in(&arguments(ty).pop()?)?;
                Some((inner, is_list || name == "Vec"))
            }
            _ => self.structs.get(&name).filter(|_| name.starts_with("Raw")).map(|_| (name, false)),
        }
    }

    /// The kind of a value, in words.
    fn value(&self, ty: &Type) -> String {
        if let Some((_, is_list)) = self.section_in(ty) {
            return if is_list { "tables" } else { "table" }.to_owned();
        }
        let name = name_of(ty).unwrap_or_default();
        let inner = |index: usize| {
            arguments(ty).get(index).map_or_else(|| "value".to_owned(), |ty| self.value(ty))
        };
        match &*name {
            "Option" => inner(0),
            "Vec" | "BTreeSet" => format!("list of {}s", inner(0)),
            "BTreeMap" => format!("table of {}s", inner(1)),
            "bool" => "true or false".to_owned(),
            "u8" | "u16" | "u32" | "u64" | "usize" | "f64" => "number".to_owned(),
            "Duration" => "duration".to_owned(),
            "SocketAddr" => "address".to_owned(),
            "Addresses" => "address, or list of them".to_owned(),
            "PathBuf" => "path".to_owned(),
            "Ipv4Addr" => "IPv4 address".to_owned(),
            _ => "text".to_owned(),
        }
    }
}

/// True for `impl Role for ...`.
fn is_role(item: &syn::ItemImpl) -> bool {
    let path = item.trait_.as_ref().map(|(_, path, _)| path);
    path.and_then(|path| path.segments.last()).is_some_and(|last| last.ident == "Role")
}

/// The last name of a type's path.
fn name_of(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|last| last.ident.to_string())
}

/// Types in the angle brackets of a type.
fn arguments(ty: &Type) -> Vec<Type> {
    let Type::Path(path) = ty else { return Vec::new() };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let syn::PathArguments::AngleBracketed(brackets) = &last.arguments else { return Vec::new() };
    let types = brackets.args.iter().filter_map(|one| match one {
        syn::GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    });
    types.collect()
}

/// A comment on one line, as Markdown outside of Rust.
fn doc_of(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter(|one| one.path().is_ident("doc")).filter_map(|one| {
        let Meta::NameValue(pair) = &one.meta else { return None };
        text_of(&pair.value)
    });
    let joined = lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>().join(" ");
    joined.replace("[`", "`").replace("`]", "`").trim().to_owned()
}

/// The words of a type's comment that do more than name the section.
fn inner_words(doc: &str) -> String {
    match doc.split_once("as written") {
        Some((_, rest)) => {
            let rest = rest.trim_start_matches(['.', ':', ' ']);
            let mut characters = rest.chars();
            characters.next().map_or_else(String::new, |first| {
                first.to_uppercase().collect::<String>() + characters.as_str()
            })
        }
        None => doc.to_owned(),
    }
}

fn text_of(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_its_keys_with_their_comments_and_the_sections_inside() {
        let code = "/// Section `[x]` as written. One of each.\nstruct RawX {\n    /// Time to wait. Default 1s: short.\n    pub wait: Duration,\n    /// More | of it.\n    pub more: Vec<RawMore>,\n}\n/// Section `[[x.more]]` as written.\nstruct RawMore {\n    /// A name.\n    name: Option<String>,\n}\n";
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.rs"), code).unwrap();
        let mut types = Types::default();
        types.read(&folder.path().join("x.rs")).unwrap();
        let mut page = String::new();
        types.add(&mut page, "x", "RawX", "").unwrap();
        let wanted = "\n## `[x]`\n\nOne of each.\n\n| key | value | |\n| --- | --- | --- |\n\
            | `wait` | duration | Time to wait. Default 1s: short. |\n\
            | `more` | tables | More \\| of it. |\n\
            \n## `[[x.more]]`\n\n| key | value | |\n| --- | --- | --- |\n| `name` | text | A name. |\n";
        assert_eq!(page, wanted);
    }

    #[test]
    fn sections_are_found_by_the_trait() {
        let code = "impl Role for X {\n    type Raw = RawX;\n    const SECTION: &'static str = \"x\";\n}\n";
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.rs"), code).unwrap();
        let mut types = Types::default();
        types.read(&folder.path().join("x.rs")).unwrap();
        assert_eq!(types.sections.get("x").map(String::as_str), Some("RawX"));
    }
}
