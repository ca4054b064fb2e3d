//! Writes the manual pages of the C library from its header: a page for each section of the header,
//! and one for the whole.
//!
//! The header is the one description of the library. Its comments have a form: sections begin with
//! `/* ---- Title ----`, a comment stands before what it describes, parameters are lines
//! `name: text` whose further lines are indented, and code is indented by four columns.

use anyhow::{Context, Result, bail};

/// A manual page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Name of its file, such as `fabricast_join.3`.
    pub(crate) file: String,
    /// Text in the language of man(7).
    pub(crate) text: String,
}

/// A declaration and the comment before it.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    comment: String,
    declaration: String,
    name: String,
}

#[derive(Debug)]
struct Section {
    title: String,
    introduction: String,
    items: Vec<Item>,
}

/// Reads the version that a header names.
///
/// # Errors
///
/// A header without.
pub(crate) fn version(header: &str) -> Result<String> {
    let define = "#define FABRICAST_VERSION \"";
    let line = header.lines().find_map(|line| line.strip_prefix(define));
    let version = line.and_then(|rest| rest.strip_suffix('"'));
    Ok(version.context("the header has no FABRICAST_VERSION")?.to_owned())
}

/// Writes all pages: those of the sections, one that refers to its section for each other function,
/// and `fabricast.3`.
///
/// # Errors
///
/// A header in another form.
pub(crate) fn pages(header: &str) -> Result<Vec<Page>> {
    let version = version(header)?;
    let sections = sections(header)?;
    let mut pages = vec![overview(header, &version, &sections)?];
    for section in &sections {
        let Some(first) = section.items.iter().find(|item| item.is_function()) else {
            bail!("section '{}' of the header has no function", section.title);
        };
        let others = sections.iter().filter(|other| other.title != section.title);
        let others: Vec<&str> = others.filter_map(Section::page_name).collect();
        let file = format!("{}.3", first.name);
        pages.push(Page { file, text: section.page(&version, &others) });
        for item in section.items.iter().filter(|item| item.is_function()) {
            if item.name != first.name {
                let text = format!(".so man3/{}.3\n", first.name);
                pages.push(Page { file: format!("{}.3", item.name), text });
            }
        }
    }
    Ok(pages)
}

fn overview(header: &str, version: &str, sections: &[Section]) -> Result<Page> {
    let (comment, rest) = comment(header).context("the header begins with a comment")?;
    let types = rest.split_once("#define FABRICAST_VERSION").map(|(_, types)| types);
    let types = types.and_then(|types| types.split_once("/* ---- "));
    let (types, _) = types.context("the header has types before its sections")?;
    let mut text = head("FABRICAST", version);
    text += ".SH NAME\nfabricast \\- hardware multicast groups and collective operations\n";
    text += ".SH SYNOPSIS\n.nf\n.B #include <fabricast.h>\n.fi\n.SH DESCRIPTION\n";
    text += &body(&comment);
    text += ".SH TYPES\n.nf\n";
    text += &verbatim(&format!("#define FABRICAST_VERSION{}", types.trim_end()));
    text += ".fi\n.SH SEE ALSO\n";
    let names: Vec<&str> = sections.iter().filter_map(Section::page_name).collect();
    text += &references(&names);
    Ok(Page { file: "fabricast.3".to_owned(), text })
}

impl Section {
    /// Name of its page: its first function.
    fn page_name(&self) -> Option<&str> {
        self.items.iter().find(|item| item.is_function()).map(|item| item.name.as_str())
    }

    fn page(&self, version: &str, others: &[&str]) -> String {
        let name = self.page_name().unwrap_or_default();
        let functions = self.items.iter().filter(|item| item.is_function());
        let functions: Vec<&str> = functions.map(|item| item.name.as_str()).collect();
        let title = self.title.to_lowercase();
        let mut text = head(&name.to_uppercase(), version);
        text += &format!(".SH NAME\n{} \\- {title} of Fabricast\n", functions.join(", "));
        text += ".SH SYNOPSIS\n.nf\n#include <fabricast.h>\n";
        for item in &self.items {
            text += &format!("\n{}", verbatim(&item.declaration));
        }
        text += ".fi\n.SH DESCRIPTION\n";
        text += &body(&self.introduction);
        for item in &self.items {
            if !item.comment.is_empty() {
                text += &format!(".SS {}\n{}", item.name, body(&item.comment));
            }
        }
        text += ".SH ERRORS\nfabricast(3) lists the codes; fabricast_error_text(3) tells more.\n";
        text += ".SH SEE ALSO\n";
        text + &references(&[&["fabricast"], others].concat())
    }
}

impl Item {
    fn is_function(&self) -> bool {
        !self.declaration.starts_with("typedef")
    }
}

fn head(title: &str, version: &str) -> String {
    format!(".TH {title} 3 \"\" \"Fabricast {version}\" \"Fabricast\"\n")
}

fn references(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name}(3)")).collect();
    format!("{}\n", names.join(",\n"))
}

/// Takes the header apart.
fn sections(header: &str) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for part in header.split("/* ---- ").skip(1) {
        // The marks that were split off begin a comment again.
        let part = format!("/* {part}");
        let (text, mut rest) = comment(&part).context("a section's comment has no end")?;
        let (title, introduction) = text.split_once(" ----").context("a title has no end")?;
        let mut items = Vec::new();
        let mut described = String::new();
        loop {
            rest = rest.trim_start();
            if let Some((text, after)) = comment(rest) {
                (described, rest) = (text, after);
            } else if !rest.starts_with('#')
                && let Some((declaration, after)) = rest.split_once(';')
            {
                let declaration = format!("{declaration};");
                let name = name(&declaration).with_context(|| format!("{declaration}: no name"))?;
                items.push(Item { comment: std::mem::take(&mut described), name, declaration });
                rest = after;
            } else {
                break; // the end of the header
            }
        }
        let (title, introduction) = (title.to_owned(), introduction.trim().to_owned());
        sections.push(Section { title, introduction, items });
    }
    Ok(sections)
}

/// Name that a declaration declares.
fn name(declaration: &str) -> Option<String> {
    let before = match declaration.split_once("(*") {
        Some((_, callback)) => callback.split(')').next(),
        None => declaration.split('(').next(),
    };
    let name = before?.rsplit([' ', '*']).next()?;
    name.starts_with("fabricast_").then(|| name.to_owned())
}

/// The comment that a text begins with, without its marks, and the rest of the text.
fn comment(text: &str) -> Option<(String, &str)> {
    let (comment, rest) = text.strip_prefix("/*")?.split_once("*/")?;
    let lines = comment.lines().map(|line| {
        let line = line.trim_start().trim_start_matches('*');
        line.strip_prefix(' ').unwrap_or(line).trim_end()
    });
    Some((lines.collect::<Vec<_>>().join("\n").trim().to_owned(), rest))
}

/// Sets the text of a comment: paragraphs, parameters, and code.
fn body(comment: &str) -> String {
    let mut text = String::new();
    for paragraph in comment.split("\n\n") {
        if paragraph.starts_with("    ") {
            text += &format!(".PP\n.nf\n{}.fi\n", verbatim(paragraph));
            continue;
        }
        text += if paragraph.lines().next().and_then(parameter).is_none() { ".PP\n" } else { "" };
        for line in paragraph.lines() {
            match parameter(line) {
                Some((name, rest)) => text += &format!(".TP\n.I {name}\n{}", verbatim(rest)),
                None => text += &verbatim(line.trim_start()),
            }
        }
    }
    text
}

/// A line that begins the description of a parameter: a word, a colon, and text.
fn parameter(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(": ")?;
    name.chars().all(|c| c.is_ascii_lowercase() || c == '_').then_some((name, rest))
}

/// Protects what man(7) would take for its own.
fn verbatim(text: &str) -> String {
    let mut protected = String::new();
    for line in text.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        let line = if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line };
        protected += &line;
        protected.push('\n');
    }
    protected
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\
/* A library.
 *
 *     call(-1);
 */
#define FABRICAST_VERSION \"1.2.3\"
typedef struct fabricast_group fabricast_group;

/* ---- Groups ----
 *
 * Groups have members. */

/* Joins a group.
 *
 * name: of the group, with
 *     nothing else.
 * group: the result. */
int fabricast_join(const char *name,
                   fabricast_group **group);

/* A function of the program. */
typedef void (*fabricast_call)(void *context);

void fabricast_leave(fabricast_group *group);

#endif
";

    fn page<'a>(pages: &'a [Page], file: &str) -> &'a str {
        let page = pages.iter().find(|page| page.file == file);
        &page.unwrap_or_else(|| panic!("no {file}")).text
    }

    #[test]
    fn a_section_is_a_page_named_by_its_first_function() {
        let pages = pages(HEADER).unwrap();
        assert_eq!(
            page(&pages, "fabricast_join.3"),
            "\
.TH FABRICAST_JOIN 3 \"\" \"Fabricast 1.2.3\" \"Fabricast\"
.SH NAME
fabricast_join, fabricast_leave \\- groups of Fabricast
.SH SYNOPSIS
.nf
#include <fabricast.h>

int fabricast_join(const char *name,
                   fabricast_group **group);

typedef void (*fabricast_call)(void *context);

void fabricast_leave(fabricast_group *group);
.fi
.SH DESCRIPTION
.PP
Groups have members.
.SS fabricast_join
.PP
Joins a group.
.TP
.I name
of the group, with
nothing else.
.TP
.I group
the result.
.SS fabricast_call
.PP
A function of the program.
.SH ERRORS
fabricast(3) lists the codes; fabricast_error_text(3) tells more.
.SH SEE ALSO
fabricast(3)
"
        );
        assert_eq!(page(&pages, "fabricast_leave.3"), ".so man3/fabricast_join.3\n");
        let overview = page(&pages, "fabricast.3");
        assert!(overview.contains(".nf\n    call(\\-1);\n.fi\n"), "{overview}");
        assert!(overview.contains("\ntypedef struct fabricast_group"), "{overview}");
        assert_eq!(pages.len(), 3);
    }

    #[test]
    fn the_header_describes_every_function_it_declares() {
        let header = include_str!("../../clients/c/include/fabricast.h");
        assert_eq!(version(header).unwrap(), env!("CARGO_PKG_VERSION"));
        let sections = sections(header).unwrap();
        let items = sections.iter().flat_map(|section| &section.items);
        // Those that start an operation do what its function does.
        let bare = items.filter(|item| item.comment.is_empty());
        let bare: Vec<&str> = bare.map(|item| item.name.as_str()).collect();
        assert!(bare.iter().all(|name| name.starts_with("fabricast_start_")), "{bare:?}");
    }

    #[test]
    fn another_form_is_an_error() {
        assert!(pages("").unwrap_err().to_string().contains("no FABRICAST_VERSION"));
        let no_function = HEADER.split("/* Joins").next().unwrap();
        let error = pages(no_function).unwrap_err().to_string();
        assert_eq!(error, "section 'Groups' of the header has no function");
        let nameless = HEADER.replace("int fabricast_join", "int join");
        assert!(pages(&nameless).unwrap_err().to_string().ends_with("no name"));
    }
}
