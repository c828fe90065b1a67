"""Checks what a wheel is made of: `python wheel.py nandle-*.whl`."""

import sys
import zipfile
from email.parser import Parser
from pathlib import Path


def main(path: Path) -> None:
    name, version, python, abi, _ = path.stem.split("-")
    assert (name, python, abi) == ("nandle", "cp310", "abi3"), f"{path.name}: not one wheel for all versions from 3.10"
    with zipfile.ZipFile(path) as wheel:
        files = wheel.namelist()
        (metadata,) = (file for file in files if file.endswith("METADATA"))
        fields = Parser().parsestr(wheel.read(metadata).decode())
    assert fields["Version"] == version
    needed = [line for line in fields.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [line.split(">")[0].split()[0] for line in needed] == ["numpy"], f"hard dependencies: {needed}"
    sources = {path.name for path in (Path(__file__).parents[1] / "nandle").iterdir() if path.is_file()}
    lacking = {file for file in sources if not file.endswith(".so") and f"nandle/{file}" not in files}
    assert not lacking, f"the wheel lacks {lacking}"
    assert {"_core.pyi", "py.typed"} <= sources
    assert sum(file.startswith("nandle/_core") and file.endswith(".so") for file in files) == 1, files
    strange = [file for file in files if file.split("/")[0] not in ("nandle", metadata.split("/")[0])]
    assert not strange, f"the wheel has {strange}"
    licences = [file for file in files if "LICENSE" in file]
    assert len(licences) == 2, f"licences: {licences}"
    print(f"{path.name}: {len(files)} files, needs {needed[0]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
