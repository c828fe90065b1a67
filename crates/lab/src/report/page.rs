//! The page around the charts: one file that fetches nothing, light and dark.

use std::fmt::Write;

use super::chart::escape;
use crate::output::SIGN;

/// The look of every page: light and dark, phone and desk.
pub const STYLE: &str = include_str!("style.css");
/// What draws the charts, carried along by pages that have any: uPlot, with its licence in its first line.
const SCRIPT: [&str; 2] = [include_str!("vendor/uPlot.iife.min.js"), include_str!("chart.js")];

/// A page under construction.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
    cards: bool,
    /// Tables offered for download so far.
    tables: usize,
}

impl Page {
    /// An empty page under its title and what follows from it.
    #[must_use]
    pub fn new(title: &str, verdict: &str) -> Self {
        let body = format!(
            "<header><h1>{}</h1><p class=\"verdict\">{}</p></header>\n",
            escape(title),
            escape(verdict)
        );
        Self { title: title.into(), body, cards: false, tables: 0 }
    }

    fn leave_cards(&mut self) {
        if std::mem::take(&mut self.cards) {
            self.body.push_str("</div>\n");
        }
    }

    /// A heading; what follows are cards until the next one.
    pub fn heading(&mut self, words: &str) {
        self.leave_cards();
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(words));
    }

    /// HTML across the page.
    pub fn wide(&mut self, html: &str) {
        self.leave_cards();
        self.body.push_str(html);
        self.body.push('\n');
    }

    /// Paragraphs.
    pub fn notes(&mut self, notes: &[String]) {
        if !notes.is_empty() {
            let items: String = notes.iter().map(|n| format!("<li>{}</li>", escape(n))).collect();
            self.wide(&format!("<ul class=\"notes\">{items}</ul>"));
        }
    }

    /// A chart with its title, a line on how to read it, and its data to be downloaded.
    pub fn card(&mut self, title: &str, hint: &str, html: &str, csv: &Csv) {
        if !std::mem::replace(&mut self.cards, true) {
            self.body.push_str("<div class=\"cards\">\n");
        }
        self.section(title, hint, html, csv);
    }

    /// The same across the page.
    pub fn broad(&mut self, title: &str, hint: &str, html: &str, csv: &Csv) {
        self.leave_cards();
        self.section(title, hint, html, csv);
    }

    fn section(&mut self, title: &str, hint: &str, html: &str, csv: &Csv) {
        self.tables += 1;
        let hint =
            if hint.is_empty() { String::new() } else { format!("<p class=\"hint\">{}</p>", escape(hint)) };
        let _ = writeln!(
            self.body,
            "<section class=\"card\"><h3>{}</h3>{hint}{html}<a class=\"csv\" download=\"{:02}-{}.csv\" href=\"{}\">data as CSV</a></section>",
            escape(title),
            self.tables,
            slug(title),
            csv.url()
        );
    }

    /// What follows is folded away under `title`, until [`Page::unfold`].
    pub fn fold(&mut self, title: &str) {
        self.wide(&format!("<details><summary>{}</summary>", escape(title)));
    }

    /// The end of what was folded away.
    pub fn unfold(&mut self) {
        self.wide("</details>");
    }

    /// Something long, folded up.
    pub fn folded(&mut self, title: &str, text: &str) {
        self.wide(&format!(
            "<details><summary>{}</summary><pre>{}</pre></details>",
            escape(title),
            escape(text)
        ));
    }

    /// The file.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.leave_cards();
        let charts = self.body.contains("class=\"plot\"");
        let (style, script) = if charts {
            let [library, ours] = SCRIPT;
            (
                include_str!("vendor/uPlot.min.css"),
                format!("<script>\n{library}</script>\n<script>\n{ours}</script>\n"),
            )
        } else {
            ("", String::new())
        };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <title>{}</title>\n<style>\n{style}{STYLE}</style>\n</head>\n<body>\n{}{SIGN}{}. Times are simulated; files carry nanoseconds and bytes. CO2e: 0.16 kg for a GB of flash made (Tannu and Nair, HotCarbon 2022).</footer>\n{script}</body>\n</html>\n",
            escape(&self.title),
            self.body,
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// Letters and digits of a title, for file names.
pub fn slug(title: &str) -> String {
    let mut out = String::new();
    for c in title.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.ends_with('-') && !out.is_empty() {
            out.push('-');
        }
    }
    out.trim_end_matches('-').to_owned()
}

/// The data of a chart, or of the atlas.
#[derive(Debug, Default)]
pub struct Csv(
    /// As it is in the file.
    pub String,
);

impl Csv {
    /// Columns with these heads, and no row.
    pub fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Self {
        let mut csv = Self::default();
        csv.row(heads.into_iter().map(str::to_owned));
        csv
    }

    /// A further row.
    pub fn row(&mut self, fields: impl IntoIterator<Item = String>) {
        let fields: Vec<String> = fields
            .into_iter()
            .map(|f| if f.contains([',', '"', '\n']) { format!("\"{}\"", f.replace('"', "\"\"")) } else { f })
            .collect();
        self.0.push_str(&fields.join(","));
        self.0.push('\n');
    }

    fn url(&self) -> String {
        let mut out = String::from("data:text/csv;charset=utf-8,");
        for byte in self.0.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.,:".contains(&byte) {
                out.push(byte as char);
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_quoted_twice_over() {
        let mut csv = Csv::new(["scheme", "waf"]);
        csv.row(["fdp(8,\"x\")".to_owned(), "1.5".to_owned()]);
        assert_eq!(csv.0, "scheme,waf\n\"fdp(8,\"\"x\"\")\",1.5\n");
        assert!(csv.url().ends_with("%0A%22fdp%288,%22%22x%22%22%29%22,1.5%0A"), "{}", csv.url());
        assert_eq!(slug("WAF, over time (s)"), "waf-over-time-s");
    }
}
