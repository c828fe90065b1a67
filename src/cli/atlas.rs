//! `nandle atlas`: every scheme on every trace and three drives, as a page with filters.

use std::fmt::Write;

use nandle_studies::atlas::{self, Plan, Size, Wish};

use super::args;
use super::terminal::{Failure, say, stop_on_interrupt};
use crate::progress::Runs;

/// `nandle atlas`
pub fn atlas(args: &args::Atlas) -> Result<(), Failure> {
    let schemes = args.schemes.as_deref().map(|list| nandle_lab::config::split_outside_brackets(list, ','));
    let wish = Wish {
        traces: args.traces.clone(),
        schemes: schemes.unwrap_or_default().into_iter().map(str::to_owned).collect(),
        size: if args.quick { Size::Quick } else { Size::Full },
        untimed: args.untimed,
    };
    let data = args.output.join("atlas.json");
    let known = match std::fs::read_to_string(&data) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|e| Failure::Input(format!("{}: {e}; expected the data of an atlas", data.display())))?,
        Err(_) => atlas::Atlas::default(),
    };
    let plan = Plan::of(&wish, &known)?;
    std::fs::create_dir_all(&args.output)
        .map_err(|e| Failure::Input(format!("{}: {e}", args.output.display())))?;
    let (kept, to_do) = (plan.atlas.rows.iter().filter(|r| r.refused.is_none()).count(), plan.jobs.len());
    let watch = Runs::new(to_do);
    let save = |atlas: &atlas::Atlas| atlas::write(&args.output, atlas);
    let done = plan.work(args.jobs, stop_on_interrupt(), &|jobs, event| watch.event(jobs, event), &save)?;
    watch.finish();
    let failed: Vec<String> = (done.rows.iter().filter(|row| row.failed))
        .map(|row| {
            format!(
                "{} on {}, {}: {}",
                row.scheme,
                row.trace,
                row.drive,
                row.refused.as_deref().unwrap_or("?")
            )
        })
        .collect();
    let mut text = format!(
        "{}: {} runs done, {kept} done before, {} refused, {} failed, {} left\n",
        args.output.display(),
        to_do - done.missing - failed.len(),
        done.rows.iter().filter(|row| row.refused.is_some() && !row.failed).count(),
        failed.len(),
        done.missing
    );
    for trace in &done.traces {
        if let Some(why) = &trace.refused {
            let _ = writeln!(text, "note: {} left out: {why}", trace.name);
        }
    }
    let _ = writeln!(text, "page: {}", args.output.join("atlas.html").display());
    say(&text)?;
    if !failed.is_empty() {
        return Err(Failure::Ran(format!("{} runs failed\n  {}", failed.len(), failed.join("\n  "))));
    }
    if done.missing > 0 {
        return Err(Failure::Ran(format!(
            "interrupted with {} runs to do; the same command goes on",
            done.missing
        )));
    }
    Ok(())
}
