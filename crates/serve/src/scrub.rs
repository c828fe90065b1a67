//! Reads the image back while it is served, on a thread of its own, so that what goes bad in it is found and written
//! again while the server still has it in memory.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::image::scrub::Reader;
use crate::lock::lock;
use crate::suspect::Found;
use crate::{Device, Error};

/// The most that is read in a second, in bytes, however large the image is.
const MOST: f64 = (32 << 20) as f64;
/// Being ahead by less is no reason to sleep.
const LEAST: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    wake: Condvar,
}

impl Stop {
    fn is_asked(&self) -> bool {
        *lock(&self.asked)
    }

    /// Sleeps until then; whether it was asked to stop.
    fn sleep_until(&self, then: Instant) -> bool {
        let mut asked = lock(&self.asked);
        while !*asked && let Some(left) = then.checked_duration_since(Instant::now()) {
            asked = self.wake.wait_timeout(asked, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *asked
    }
}

/// A thread that reads the image; it ends when this is dropped.
pub(crate) struct Running {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// Begins to read: all of the image in the time `every`, again and again, or longer if it is large. What it finds is the
/// driver's to judge.
pub(crate) fn start(device: Device, reader: Reader, every: Duration) -> Result<Running, Error> {
    let stop = Arc::<Stop>::default();
    let its = stop.clone();
    let thread = std::thread::Builder::new().name("scrub".into()).spawn(move || {
        // Answers go first. On Linux this is the thread's own.
        let _ = rustix::process::nice(10);
        run(&device, reader, every, &its);
    });
    let thread = thread.map_err(|e| Error::io("a thread that reads the image", e))?;
    Ok(Running { stop, thread: Some(thread) })
}

fn run(device: &Device, mut reader: Reader, every: Duration, stop: &Stop) {
    loop {
        let began = Instant::now();
        let mut due = Duration::ZERO;
        loop {
            let step = reader.step();
            let whole = step.is_none();
            let step = step.unwrap_or_default();
            let share = if whole { 1.0 } else { reader.progress() };
            due = (due + Duration::from_secs_f64(step.bytes as f64 / MOST)).max(every.mul_f64(share));
            if (whole || !step.places.is_empty())
                && device.scrubbed(|| !stop.is_asked(), Found { places: step.places, whole }).is_none()
            {
                return;
            }
            let then = began + due;
            if (whole || then > Instant::now() + LEAST) && stop.sleep_until(then) {
                return;
            }
            if whole {
                break;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *lock(&self.stop.asked) = true;
        self.stop.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
