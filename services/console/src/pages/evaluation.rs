//! Results of `fabricast eval` and `fabricast plan`: the plots, with their tables behind them.

use maud::{Markup, html};

use super::Page;
use super::markdown::markdown;
use super::parts::name;
use crate::http::{Query, encoded};
use crate::results::{ResultFiles, ResultTitle, Results};

/// Most rows of a table.
const LISTED: usize = 400;

/// The list of results, or one of them.
pub(crate) async fn evaluation(results: &Results, query: &Query) -> Page {
    let wanted = query.get("name");
    if wanted.is_empty() {
        let body = html! {
            h1 { "Evaluation and planning" }
            p { "What larger tables would change for the groups that there are: "
                a href="/capacity" { "Capacity" } "." }
            @match results.list().await {
                None => p .soft { "The console shows the results in a folder: "
                    code { "fabricast eval all --out DIR" } ", then " code { "--evaluation DIR" }
                    " at its start. So it does with what " code { "fabricast capacity plan --out DIR" } " writes." },
                Some(Err(problem)) => p .problem role="status" { "The folder cannot be read: " (problem) },
                Some(Ok(found)) => (list(&found)),
            }
        };
        // Nothing that happens in the fabric changes it.
        return Page { renewal: None, ..Page::new("/evaluation", "Evaluation", body) };
    }
    match results.read(wanted).await {
        None => Page::not_found("There are no results of this name."),
        Some(Err(problem)) => Page::missing("/evaluation", wanted, &problem),
        Some(Ok(files)) => {
            let body = result(wanted, &files);
            Page { renewal: None, ..Page::new("/evaluation", wanted, body) }
        }
    }
}

fn list(found: &[ResultTitle]) -> Markup {
    html! {
        @if found.is_empty() { p .soft { "The folder has no results." } }
        ul #results { @for one in found {
            li { a href={ "/evaluation?name=" (encoded(&one.name)) } { (name(&one.name)) }
                @if !one.title.is_empty() { ": " (name(&one.title)) } }
        } }
    }
}

fn result(of: &str, files: &ResultFiles) -> Markup {
    html! {
        h1 { (name(of)) }
        p { a #up href="/evaluation" { "All results" } }
        div .plots { @for plot in &files.plots {
            @let address = format!("/plot?name={}&file={}", encoded(of), encoded(plot));
            figure {
                a href=(address) { img src=(address) alt={ "Plot " (plot) } width="860" height="520" loading="lazy"; }
                figcaption { (name(plot.trim_end_matches(".svg"))) }
            }
        } }
        @for (file, text) in &files.tables {
            details { summary { "Table " (name(file)) } (table(file, text)) }
        }
        @for text in &files.texts { (markdown(text)) }
        @if files.left_out > 0 {
            p .soft { "and " (files.left_out) " more tables or texts, which are too long to be shown" }
        }
    }
}

fn table(file: &str, text: &str) -> Markup {
    let mut lines = text.lines();
    let head = lines.next().map(fields).unwrap_or_default();
    let count = text.lines().count().saturating_sub(1);
    html! {
        div .scroll tabindex="0" role="group" aria-label=(file) {
            table {
                thead { tr { @for cell in &head { th { (name(cell)) } } } }
                tbody { @for line in lines.take(LISTED) {
                    tr { @for cell in fields(line) { td { (name(&cell)) } } }
                } }
            }
        }
        @if count > LISTED { p .soft { "and " (count - LISTED) " more rows" } }
    }
}

/// Fields of a line of CSV; quotes keep commas, and two of them are one.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let last = fields.last_mut().expect("there is one at least");
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => last.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => last.push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_commas() {
        assert_eq!(fields("a,\"b, \"\"c\"\"\",,d"), ["a", "b, \"c\"", "", "d"]);
        assert_eq!(fields(""), [""]);
    }
}
