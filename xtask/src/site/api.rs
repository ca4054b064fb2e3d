//! Pages of the API: the comments of the `.proto` files, by service and by what they exchange.

use std::collections::BTreeMap;
use std::fmt::Write;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet,
};

const PACKAGE: &str = ".fabricast.v1.";
// Numbers of the fields of the descriptors, which paths of comments consist of.
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const SERVICES: i32 = 6;
const FIELDS: i32 = 2;
const NESTED_MESSAGES: i32 = 3;
const NESTED_ENUMS: i32 = 4;

/// A page for one `.proto` file.
pub(super) struct Page {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) text: String,
}

/// The pages, those with services first.
pub(super) fn pages(set: &FileDescriptorSet) -> Vec<Page> {
    let ours = set.file.iter().filter(|file| file.package() == "fabricast.v1");
    let mut files: Vec<&FileDescriptorProto> = ours.collect();
    files.sort_by_key(|file| (file.service.is_empty(), file.name().to_owned()));
    let names = names(&files);
    files.iter().map(|file| page(file, &names)).collect()
}

/// The page that each message and enum is on.
type Names = BTreeMap<String, String>;

fn names(files: &[&FileDescriptorProto]) -> Names {
    let mut names = Names::new();
    for file in files {
        let page = page_name(file);
        let enums = file.enum_type.iter().map(EnumDescriptorProto::name);
        let all = file.message_type.iter().map(DescriptorProto::name).chain(enums);
        names.extend(all.map(|name| (name.to_owned(), page.clone())));
    }
    names
}

fn page_name(file: &FileDescriptorProto) -> String {
    let name = file.name().rsplit('/').next().unwrap_or_default();
    name.trim_end_matches(".proto").to_owned()
}

fn page(file: &FileDescriptorProto, names: &Names) -> Page {
    let comments = Comments::of(file);
    let title = file.service.first().map_or_else(|| page_name(file), |one| one.name().to_owned());
    let mut text = format!("# {title}\n\nFrom `{}`.\n", file.name());
    for (at, service) in (0..).zip(&file.service) {
        if file.service.len() > 1 {
            push(&mut text, &format!("\n## {}\n", service.name()));
        }
        push(&mut text, &comments.block(&[SERVICES, at]));
        for (inner, method) in (0..).zip(&service.method) {
            let stream = |is: bool| if is { "stream of " } else { "" };
            let (input, output) = (local(method.input_type()), local(method.output_type()));
            push(&mut text, &format!("\n## {}.{}\n", service.name(), method.name()));
            push(
                &mut text,
                &format!(
                    "\n{}{} → {}{}\n",
                    stream(method.client_streaming()),
                    linked(&input, names),
                    stream(method.server_streaming()),
                    linked(&output, names)
                ),
            );
            push(&mut text, &comments.block(&[SERVICES, at, 2, inner]));
        }
    }
    let words = Words { comments: &comments, names };
    for (at, message) in (0..).zip(&file.message_type) {
        add_message(&mut text, message, "", &[MESSAGES, at], &words);
    }
    for (at, one) in (0..).zip(&file.enum_type) {
        add_enum(&mut text, one, "", &[ENUMS, at], &comments);
    }
    Page { name: page_name(file), title, text }
}

fn add_message(
    text: &mut String,
    message: &DescriptorProto,
    outer: &str,
    path: &[i32],
    words: &Words<'_>,
) {
    let Words { comments, names } = words;
    if message.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry) {
        return;
    }
    let name = format!("{outer}{}", message.name());
    push(text, &format!("\n## {name}\n"));
    push(text, &comments.block(path));
    if !message.field.is_empty() {
        push(text, "\n| field | type | |\n| --- | --- | --- |\n");
    }
    for (at, field) in (0..).zip(&message.field) {
        let comment = comments.line(&[path, &[FIELDS, at]].concat());
        let kind = kind(field, message, names);
        push(text, &format!("| `{}` | {kind} | {comment} |\n", field.name()));
    }
    let outer = format!("{name}.");
    for (at, inner) in (0..).zip(&message.nested_type) {
        let path = [path, &[NESTED_MESSAGES, at]].concat();
        add_message(text, inner, &outer, &path, words);
    }
    for (at, inner) in (0..).zip(&message.enum_type) {
        add_enum(text, inner, &outer, &[path, &[NESTED_ENUMS, at]].concat(), comments);
    }
}

fn add_enum(
    text: &mut String,
    one: &EnumDescriptorProto,
    outer: &str,
    path: &[i32],
    comments: &Comments,
) {
    push(text, &format!("\n## {outer}{}\n", one.name()));
    push(text, &comments.block(path));
    push(text, "\n| value | |\n| --- | --- |\n");
    for (at, value) in (0..).zip(&one.value) {
        let comment = comments.line(&[path, &[2, at]].concat());
        push(text, &format!("| `{}` | {comment} |\n", value.name()));
    }
}

/// The type of a field in words.
fn kind(field: &FieldDescriptorProto, message: &DescriptorProto, names: &Names) -> String {
    let scalar = || format!("{:?}", field.r#type()).to_lowercase();
    let name = match field.r#type() {
        Type::Message | Type::Enum => {
            let name = local(field.type_name());
            let entry = message.nested_type.iter().find(|inner| {
                inner.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry)
                    && name.ends_with(inner.name())
            });
            if let Some(entry) = entry
                && let [key, value] = &entry.field[..]
            {
                return format!(
                    "map: {} to {}",
                    kind(key, entry, names),
                    kind(value, entry, names)
                );
            }
            linked(&name, names)
        }
        _ => scalar(),
    };
    let oneof = field.oneof_index.filter(|_| !field.proto3_optional()).and_then(|index| {
        let index = usize::try_from(index).ok()?;
        message.oneof_decl.get(index).map(prost_types::OneofDescriptorProto::name)
    });
    match (field.label(), oneof) {
        (Label::Repeated, _) => format!("list of {name}"),
        (_, Some(oneof)) => format!("{name}, one of `{oneof}`"),
        _ => name,
    }
}

/// A name without the package that all have.
fn local(name: &str) -> String {
    name.strip_prefix(PACKAGE).unwrap_or(name.trim_start_matches('.')).to_owned()
}

/// A name with a link to where it is described.
fn linked(name: &str, names: &Names) -> String {
    let first = name.split('.').next().unwrap_or_default();
    match names.get(first) {
        Some(page) => {
            let anchor: String = name.to_lowercase().chars().filter(|one| *one != '.').collect();
            format!("[`{name}`]({page}.md#{anchor})")
        }
        None => format!("`{name}`"),
    }
}

/// Comments of a file, and where names of all files are described.
struct Words<'a> {
    comments: &'a Comments,
    names: &'a Names,
}

/// Comments of a file by the path of what they stand at.
struct Comments(BTreeMap<Vec<i32>, String>);

impl Comments {
    fn of(file: &FileDescriptorProto) -> Self {
        let places = file.source_code_info.iter().flat_map(|info| &info.location);
        let comments = places.filter_map(|place| {
            let text = place.leading_comments.as_ref().or(place.trailing_comments.as_ref())?;
            Some((place.path.clone(), text.clone()))
        });
        Self(comments.collect())
    }

    /// A comment as paragraphs, each line without the space that stands after the slashes.
    fn block(&self, path: &[i32]) -> String {
        let Some(text) = self.0.get(path) else { return String::new() };
        let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line));
        format!("\n{}\n", escaped(lines.collect::<Vec<_>>().join("\n").trim()))
    }

    /// A comment as a cell of a table.
    fn line(&self, path: &[i32]) -> String {
        let text = self.0.get(path).map(String::as_str).unwrap_or_default();
        escaped(&text.split_whitespace().collect::<Vec<_>>().join(" ")).replace('|', "\\|")
    }
}

/// Text in which nothing is taken for HTML.
fn escaped(text: &str) -> String {
    text.replace('<', "&lt;")
}

fn push(text: &mut String, more: &str) {
    let _ = write!(text, "{more}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(proto: &str) -> FileDescriptorSet {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x_service.proto"), proto).unwrap();
        protox::compile(["x_service.proto"], [folder.path()]).unwrap()
    }

    #[test]
    fn a_page_has_calls_fields_and_values_with_their_comments() {
        let set = compiled(
            "syntax = \"proto3\";\npackage fabricast.v1;\n// Serves x.\nservice XService {\n  \
             // Gets <x>.\n  rpc GetX(X) returns (stream X);\n}\n// An x.\nmessage X {\n  \
             // Required. A | name.\n  string name = 1;\n  repeated State states = 2;\n  \
             map<string, X> more = 3;\n}\n// A state.\nenum State {\n  // None.\n  \
             STATE_UNSPECIFIED = 0;\n}\n",
        );
        let pages = pages(&set);
        let [page] = &pages[..] else { panic!("{}", pages.len()) };
        assert_eq!((&*page.name, &*page.title), ("x_service", "XService"));
        for wanted in [
            "\nServes x.\n",
            "## XService.GetX\n\n[`X`](x_service.md#x) → stream of [`X`](x_service.md#x)\n\nGets &lt;x>.\n",
            "## X\n\nAn x.\n",
            "| `name` | string | Required. A \\| name. |\n",
            "| `states` | list of [`State`](x_service.md#state) |  |\n",
            "| `more` | map: string to [`X`](x_service.md#x) |  |\n",
            "| `STATE_UNSPECIFIED` | None. |\n",
        ] {
            assert!(page.text.contains(wanted), "{wanted}\n---\n{}", page.text);
        }
    }
}
