//! The progress bars: hidden where standard error is not a terminal.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nandle_lab::batch::{Event, Job, State};
use nandle_lab::replay::Progress;

/// `--quiet`
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on results and errors alone are shown.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether results and errors alone are shown.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A bar of so many steps.
pub fn bar(steps: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if is_quiet() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    styled(&bar, template);
    bar
}

fn styled(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}

/// One bar for a run, phase after phase.
pub struct Bar {
    bar: ProgressBar,
    phase: usize,
    calls: u32,
}

/// Updates that the bar sleeps through between two that it shows.
const EVERY: u32 = 16;

impl Bar {
    pub fn new() -> Self {
        Self { bar: bar(0, ""), phase: 0, calls: 0 }
    }

    pub fn update(&mut self, progress: &Progress) {
        if self.phase != progress.phase.0 {
            self.phase = progress.phase.0;
            let template = match progress.total {
                Some(_) => "{prefix}[{bar:32}] {human_pos}/{human_len} requests, {eta} left{msg}",
                None => "{prefix}{spinner} {human_pos} requests, {elapsed}{msg}",
            };
            styled(&self.bar, template);
            if progress.phase.1 > 1 {
                self.bar.set_prefix(format!("phase {} of {} ", progress.phase.0, progress.phase.1));
            }
            self.bar.reset();
            self.bar.set_length(progress.total.unwrap_or(0));
            self.calls = 0;
        }
        if self.calls.is_multiple_of(EVERY) && !self.bar.is_hidden() {
            self.bar.set_position(progress.requests);
            if let Some(waf) = progress.waf {
                self.bar.set_message(format!(", WAF {waf:.2}"));
            }
        }
        self.calls = self.calls.wrapping_add(1);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// One bar for many runs, with what is under way.
pub struct Runs {
    bar: ProgressBar,
    under_way: Mutex<BTreeMap<usize, String>>,
}

impl Runs {
    pub fn new(runs: usize) -> Self {
        let bar = bar(runs as u64, "[{bar:24}] {pos}/{len} runs, {eta} left  {wide_msg}");
        Self { bar, under_way: Mutex::new(BTreeMap::new()) }
    }

    pub fn event(&self, jobs: &[Job], event: Event<'_>) {
        match event {
            Event::Progress(..) if self.bar.is_hidden() => {}
            Event::Progress(run, progress) => {
                let share = progress.total.filter(|&n| n > 0).map(|n| progress.requests * 100 / n);
                let words = format!("{} {}%", jobs[run].labels.scheme, share.unwrap_or(0));
                let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
                under_way.insert(run, words);
                let all: Vec<&str> = under_way.values().map(String::as_str).collect();
                self.bar.set_message(all.join(", "));
            }
            Event::Over(run, state) => {
                self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
                if let State::Failed(error) = state {
                    self.bar.println(format!("failed: {}: {error}", jobs[run].labels));
                }
                self.bar.inc(1);
            }
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
