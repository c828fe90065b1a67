//! A new image of a drive that goes on: what a power cut at this moment would leave of it.

use std::path::Path;

use nandle_lab::config::Drive;
use nandle_lab::units::{bytes, time};
use nandle_ssd::nand::Silicon;

use crate::image::{self, How, Opened};
use crate::order::{Answer, Order};
use crate::{Device, Error, Io};

/// Writes the image `file`. The drive is held up while its state is copied, not while the file is written.
pub(super) fn take(device: &Device, drive: &Drive, seed: u64, file: &Path, flush: bool) -> Answer {
    if file.symlink_metadata().is_ok() {
        return Answer::Refused(format!(
            "{}: there is such a file already; expected a name that is free",
            file.display()
        ));
    }
    if flush {
        let (sender, receiver) = std::sync::mpsc::channel();
        device.submit(Io::flush(), move |outcome| {
            let _ = sender.send(outcome);
        });
        match receiver.recv() {
            Ok(Ok(_)) => {}
            Ok(Err(fault)) => return Answer::Refused(format!("the flush before it failed: {fault}")),
            Err(_) => return Answer::gone(),
        }
    }
    let Some((silicon, at)) = device.look(|| true, |ssd| (ssd.clone().cut_power(), ssd.now())) else {
        return Answer::gone();
    };
    match write(silicon, drive, seed, file)
        .and_then(|()| file.metadata().map_err(|e| Error::io("its size", e)))
    {
        Ok(metadata) => {
            use std::os::unix::fs::MetadataExt;
            let (file, size, at) = (file.display(), bytes(metadata.blocks() * 512), time(at as f64));
            let said = format!("{file}: the flash as a power cut after {at} would have left it, {size}");
            match device.order(Order::Show) {
                Some(Answer::Done { faults, .. }) => Answer::Done { said, faults },
                _ => Answer::gone(),
            }
        }
        Err(e) => Answer::Refused(e.to_string()),
    }
}

fn write(Silicon(array): Silicon, drive: &Drive, seed: u64, file: &Path) -> Result<(), Error> {
    let Opened { image, .. } = image::open(file, drive, How::default())?;
    image.filled(drive, seed, &array)?.close()
}
