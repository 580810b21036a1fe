"""The notebooks of the docs: they run from the first cell to the last, and are kept as they are before that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')

from tests.conftest import Later

if TYPE_CHECKING:
    import nbclient
    import nbformat
else:
    nbclient, nbformat = map(Later, ("nbclient", "nbformat"))

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOKS = sorted(path.name for path in DOCS.glob("*.ipynb"))


def test_there_is_a_notebook() -> None:
    """So that the tests below test something."""
    assert "tour.ipynb" in NOTEBOOKS


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs_and_is_kept_without_outputs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user would run it, in a kernel of its own; every figure of plotly is shown, nothing is written to stderr."""
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    notebook = nbformat.read(DOCS / name, as_version=nbformat.current_nbformat)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in cells for output in cell.outputs]
    assert all(output.get("name") == "stdout" for output in outputs if output.output_type == "stream")
    figures = [cell for cell in cells if cell.source.splitlines()[-1].endswith("plot()")]
    assert len(figures) >= 3
    for cell in figures:
        assert "application/vnd.plotly.v1+json" in cell.outputs[-1].data
