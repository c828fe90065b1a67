//! Where each scheme loses to the baseline.

use super::data::{Atlas, Row};

/// What counts as a difference.
const MARGIN: f64 = 0.02;

/// A scheme against the baseline on one kind of drive, by one figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Against {
    /// Traces on which it has less, as much (within 2%), and more.
    pub less: usize,
    /// See `less`.
    pub same: usize,
    /// See `less`.
    pub more: usize,
    /// Traces on which one of both was not steady: not judged.
    pub moving: usize,
    /// The trace where it does worst, with the ratio.
    pub worst: Option<(String, f64)>,
    /// And best.
    pub best: Option<(String, f64)>,
}

/// A figure of a row.
pub(super) type Figure = fn(&Row) -> Option<f64>;

/// The figures that schemes are judged by: what more of it is called, what less, and the figure.
pub(super) const FIGURES: [(&str, &str, Figure); 2] = [
    ("writes more flash", "less", |row| row.waf),
    ("answers writes later", "earlier", |row| row.write_mean_ns),
];

impl Atlas {
    /// A scheme against the baseline on one kind of drive.
    #[must_use]
    pub(super) fn against(&self, scheme: &str, drive: &str, figure: Figure) -> Against {
        let base = self.schemes.first().map_or("", |s| s.name.as_str());
        let mut found = Against::default();
        let mut ratios: Vec<(&str, f64)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.scheme == scheme && row.drive == drive) {
            let same =
                |other: &&Row| other.scheme == base && other.drive == drive && other.trace == row.trace;
            let Some(first) = self.rows.iter().find(same) else { continue };
            let Some((own, its)) = figure(row).zip(figure(first).filter(|&v| v > 0.0)) else { continue };
            if row.steady && first.steady {
                ratios.push((&row.trace, own / its));
            } else {
                found.moving += 1;
            }
        }
        ratios.sort_by(|a, b| a.1.total_cmp(&b.1));
        for &(_, ratio) in &ratios {
            match ratio {
                r if r < 1.0 - MARGIN => found.less += 1,
                r if r > 1.0 + MARGIN => found.more += 1,
                _ => found.same += 1,
            }
        }
        let named = |entry: &(&str, f64)| (entry.0.to_owned(), entry.1);
        found.best = ratios.first().filter(|r| r.1 < 1.0 - MARGIN).map(named);
        found.worst = ratios.last().filter(|r| r.1 > 1.0 + MARGIN).map(named);
        found
    }
}

/// One paragraph a scheme: where it loses, on which drive, by which figure; the baseline has none.
#[must_use]
pub fn verdicts(atlas: &Atlas) -> Vec<(String, Vec<String>)> {
    atlas.schemes.iter().skip(1).map(|scheme| (scheme.name.clone(), verdict(atlas, &scheme.name))).collect()
}

fn verdict(atlas: &Atlas, scheme: &str) -> Vec<String> {
    let mut said = Vec::new();
    for drive in &atlas.drives {
        let rows: Vec<&Row> =
            atlas.rows.iter().filter(|r| r.scheme == scheme && r.drive == drive.name).collect();
        let refused = rows.iter().filter(|r| r.refused.is_some()).count();
        if refused == rows.len() {
            if let Some(why) = rows.first().and_then(|row| row.refused.as_ref()) {
                said.push(format!("{}: refused ({why}).", drive.name));
            }
            continue;
        }
        let mut parts = Vec::new();
        for (words, fewer, figure) in FIGURES {
            let a = atlas.against(scheme, &drive.name, figure);
            let judged = a.less + a.same + a.more;
            let Some((trace, ratio)) = a.worst else {
                if judged > 0 {
                    parts.push(format!("never {words} on {judged} traces, {fewer} on {}", a.less));
                }
                continue;
            };
            parts.push(format!(
                "{words} on {} of {judged} traces, most on {trace} ({ratio:.2}x), {fewer} on {}",
                a.more, a.less
            ));
        }
        let moving = atlas.against(scheme, &drive.name, FIGURES[0].2).moving;
        if moving > 0 {
            parts.push(format!("{moving} not steady, so not judged"));
        } else if parts.is_empty() {
            parts.push("not judged".into());
        }
        said.push(format!("{}: {}.", drive.name, parts.join("; ")));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::data::{DriveKind, Scheme};
    use super::*;

    fn row(trace: &str, scheme: &str, waf: f64, steady: bool) -> Row {
        let (trace, scheme) = (trace.to_owned(), scheme.to_owned());
        Row { drive: "d".into(), trace, scheme, waf: Some(waf), steady, ..Row::default() }
    }

    #[test]
    fn a_scheme_loses_where_it_writes_more_and_both_are_steady() {
        let scheme = |name: &str| Scheme { name: name.into(), ..Scheme::default() };
        let mut atlas = Atlas {
            drives: vec![DriveKind { name: "d".into(), line: String::new() }],
            schemes: vec![scheme("base"), scheme("s"), scheme("refused")],
            rows: vec![
                row("a", "base", 2.0, true),
                row("a", "s", 3.0, true),
                row("b", "base", 2.0, true),
                row("b", "s", 1.0, true),
                row("c", "base", 2.0, true),
                row("c", "s", 2.01, true),
                row("e", "base", 2.0, false),
                row("e", "s", 9.0, true),
            ],
            ..Atlas::default()
        };
        atlas.rows.push(Row { waf: None, refused: Some("no".into()), ..row("a", "refused", 0.0, false) });
        let found = atlas.against("s", "d", FIGURES[0].2);
        assert_eq!((found.less, found.same, found.more, found.moving), (1, 1, 1, 1));
        assert_eq!(found.worst, Some(("a".into(), 1.5)));
        let said = verdicts(&atlas);
        assert_eq!(said.len(), 2);
        assert_eq!(
            said[0].1,
            [
                "d: writes more flash on 1 of 3 traces, most on a (1.50x), less on 1; 1 not steady, so not judged."
            ]
        );
        assert_eq!(said[1].1, ["d: refused (no)."]);
    }
}
