//! Goal: the Python package does what its tests say.
//! Method: Python finds a folder with the package's sources and the library that cargo built for this test, and runs the
//! tests beside this file. `NANDLE_PYTHON` names a Python that has what they need (the group `test` in pyproject.toml).
//! A wheel, which takes the library built once more, is made at night.

use std::env::{self, consts};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The package as an installed one looks, its extension for pytest included.
fn install(built: &Path) -> io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let _ = fs::remove_dir_all(&folder);
    let (package, about) = (folder.join("nandle"), folder.join("nandle.dist-info"));
    fs::create_dir_all(&package)?;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("nandle"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), package.join(entry.file_name()))?;
        }
    }
    fs::copy(
        built.join(format!("{}_core{}", consts::DLL_PREFIX, consts::DLL_SUFFIX)),
        package.join("_core.abi3.so"),
    )?;
    fs::create_dir_all(&about)?;
    fs::write(about.join("METADATA"), format!("Name: nandle\nVersion: {}\n", env!("CARGO_PKG_VERSION")))?;
    fs::write(about.join("entry_points.txt"), "[pytest11]\nnandle = nandle.pytest_plugin\n")?;
    Ok(folder)
}

#[test]
fn python_passes_its_own_tests() {
    let Some(python) = env::var_os("NANDLE_PYTHON") else {
        return eprintln!("skipped: NANDLE_PYTHON names no Python with numpy, pytest and pytest-xdist");
    };
    let this = env::current_exe().expect("the test's own path");
    let built = this.parent().expect("a folder of what was built");
    let folder = install(built).expect("a folder for the package");
    let mut pytest = Command::new(python);
    pytest.args(["-m", "pytest", "-q", "-n", "2", "python/tests"]);
    pytest.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).env("PYTHONPATH", folder);
    let program = built.with_file_name("nandle");
    if program.exists() {
        pytest.env("NANDLE", program);
    }
    let status = pytest.status().expect("Python starts");
    assert!(status.success(), "pytest: {status}");
}
