"""Executes the notebooks: `python docs/notebooks/execute.py [NAME...]` writes NAME.ipynb beside NAME.py.

Needs nandle with its extra `notebook`. `--check` writes nothing and fails where a notebook prints something else
than the .ipynb says.
"""

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def executed(source: Path) -> nbformat.NotebookNode:
    """The cells of a .py file with what they show."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        # Names of cells are random otherwise.
        cell.id = f"{source.stem.replace('_', '-')}-{number}"
    NotebookClient(notebook, timeout=600, record_timing=False, resources={"metadata": {"path": str(HERE)}}).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def printed(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """What each cell is and prints; pictures differ between versions of what draws them."""
    cells = []
    for cell in notebook.cells:
        texts = [
            output.get("text") or output.get("data", {}).get("text/html", "")
            for output in cell.get("outputs", [])
            if output.output_type == "stream" or "text/html" in output.get("data", {})
        ]
        cells.append((cell.source, "".join(texts)))
    return cells


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    names = [name for name in arguments if not name.startswith("-")]
    sources = [HERE / f"{name}.py" for name in names] or sorted(set(HERE.glob("*.py")) - {Path(__file__)})
    wrong = 0
    for source in sources:
        target = source.with_suffix(".ipynb")
        notebook = executed(source)
        if not check:
            nbformat.write(notebook, target)
            print(f"{target.name}: {len(notebook.cells)} cells")
        elif not target.exists() or printed(nbformat.read(target, as_version=4)) != printed(notebook):
            print(f"{target.name} is not what its cells print: python docs/notebooks/execute.py {source.stem}")
            wrong += 1
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
