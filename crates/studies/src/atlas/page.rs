//! The atlas as one HTML file that opens offline, and as CSV.

use std::fmt::Write;
use std::path::Path;

use nandle_lab::Error;
use nandle_lab::report::chart::escape;
use nandle_lab::report::page::{Csv, STYLE};
use nandle_lab::units::count;

use super::data::Atlas;
use super::verdict::verdicts;

/// The page. What the reader chooses from is plain data in it, which its script shows.
#[must_use]
pub fn page(atlas: &Atlas) -> String {
    let done = atlas.rows.iter().filter(|row| row.refused.is_none()).count();
    let (failed, refused) = (
        atlas.rows.iter().filter(|row| row.failed).count(),
        atlas.rows.iter().filter(|row| row.refused.is_some() && !row.failed).count(),
    );
    let steady = atlas.rows.iter().filter(|row| row.steady).count();
    let sectors: u64 = atlas.rows.iter().map(|row| row.verified_sectors).sum();
    let state = match atlas.missing {
        0 => String::new(),
        n => format!("Partial, {} runs are missing: ", count(n as u64)),
    };
    let verdict = format!(
        "{state}{} schemes on {} traces and {} drives: {} runs, {} steady; {} sectors read back right; {failed} runs failed, {refused} combinations refused.",
        atlas.schemes.len(),
        atlas.traces.iter().filter(|t| t.refused.is_none()).count(),
        atlas.drives.len(),
        count(done as u64),
        count(steady as u64),
        count(sectors),
    );
    let list = |items: &mut dyn Iterator<Item = String>| {
        items.fold(String::new(), |out, item| out + "<li>" + &item + "</li>")
    };
    let notes = list(&mut atlas.notes.iter().map(|note| escape(note)));
    let drives =
        list(&mut atlas.drives.iter().map(|d| format!("<b>{}</b>: {}", escape(&d.name), escape(&d.line))));
    let unread = list(
        &mut atlas
            .traces
            .iter()
            .filter_map(|t| Some(format!("left out: {}: {}", escape(&t.name), escape(t.refused.as_ref()?)))),
    );
    let mut losses = String::new();
    for (scheme, said) in verdicts(atlas) {
        let line = atlas.schemes.iter().find(|s| s.name == scheme).map_or("", |s| s.line.as_str());
        let _ = write!(
            losses,
            "<section class=\"card\"><h3>{}</h3><p class=\"hint\">{}</p><ul class=\"notes\">{}</ul></section>",
            escape(&scheme),
            escape(line),
            list(&mut said.iter().map(|s| escape(s)))
        );
    }
    // A closing tag in a name would end the element.
    let data = serde_json::to_string(atlas).unwrap_or_default().replace('<', "\\u003c");
    include_str!("page.html")
        .replace("%STYLE%", &format!("{STYLE}{}", include_str!("page.css")))
        .replace("%VERDICT%", &escape(&verdict))
        .replace("%DRIVES%", &drives)
        .replace("%NOTES%", &format!("{notes}{unread}"))
        .replace("%LOSSES%", &losses)
        .replace("%VERSION%", &escape(&atlas.version))
        .replace("%SCRIPT%", include_str!("page.js"))
        .replace("%DATA%", &data)
}

/// The rows, one a line.
#[must_use]
pub fn csv(atlas: &Atlas) -> String {
    let heads = "drive,trace,scheme,logical_bytes,requests,waf,steady,waf_host,waf_padding,waf_gc,waf_merge,waf_map,waf_meta,waf_parity,\
                 write_mean_ns,write_p99_ns,read_mean_ns,read_p99_ns,map_bytes,verified_sectors,refused";
    let mut csv = Csv::new(heads.split(','));
    let some = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    for row in &atlas.rows {
        let (logical, requests) = (row.logical_bytes.to_string(), row.requests.to_string());
        let mut fields = vec![row.drive.clone(), row.trace.clone(), row.scheme.clone(), logical, requests];
        fields.extend([some(row.waf), row.steady.to_string()]);
        fields.extend(row.waf_parts.iter().map(f64::to_string));
        fields.extend([row.write_mean_ns, row.write_p99_ns, row.read_mean_ns, row.read_p99_ns].map(some));
        fields.extend([row.map_bytes.to_string(), row.verified_sectors.to_string()]);
        fields.push(row.refused.clone().unwrap_or_default());
        csv.row(fields);
    }
    csv.0
}

/// Writes the data, the rows and the page to a directory.
///
/// # Errors
/// If it cannot.
pub fn write(dir: &Path, atlas: &Atlas) -> Result<(), Error> {
    let data = serde_json::to_string(atlas).unwrap_or_default() + "\n";
    for (name, text) in [("atlas.json", data), ("atlas.csv", csv(atlas)), ("atlas.html", page(atlas))] {
        let path = dir.join(name);
        // Whoever is interrupted leaves the file of before.
        let beside = path.with_extension("new");
        std::fs::write(&beside, text)
            .and_then(|()| std::fs::rename(&beside, &path))
            .map_err(|source| Error::Write { path, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::data::{Row, Scheme, TraceInfo};
    use super::*;

    #[test]
    fn the_page_is_one_file_and_names_cannot_break_out_of_it() {
        let atlas = Atlas {
            version: "1".into(),
            schemes: vec![Scheme { name: "base".into(), ..Scheme::default() }],
            traces: vec![TraceInfo {
                name: "</script><b>".into(),
                refused: Some("no <trace>".into()),
                ..TraceInfo::default()
            }],
            rows: vec![Row { trace: "a,\"b\"".into(), refused: Some("x".into()), ..Row::default() }],
            missing: 3,
            ..Atlas::default()
        };
        let html = page(&atlas);
        assert_eq!(html.matches("</script>").count(), html.matches("<script").count());
        assert!(!html.contains("http:") && !html.contains("https:") && !html.contains("src="));
        assert!(!html.contains('%') || !html.contains("%DATA%"), "every place is filled");
        for part in ["Partial, 3 runs", "no &lt;trace&gt;", "\\u003c/script>"] {
            assert!(html.contains(part), "no {part:?}");
        }
        assert!(csv(&atlas).ends_with(",0,0,x\n") && csv(&atlas).contains("\"a,\"\"b\"\"\""));
    }
}
