"""Makes a page of each notebook: its text, its code, what the code prints, and the figures that it ends with.

The notebooks are kept without outputs. Their code runs when the site is built, as it does in a notebook, and a part of
plotly.js that stands beside the pages draws the figures.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from optplan.reporting.pages import read_plotly_js

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_SCRIPT = "assets/plotly.js"


def on_files(files: Files, config: MkDocsConfig, **_: object) -> Files:
    """Add a page for each notebook, and the script that draws their figures."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        assert notebook.abs_src_path is not None
        text = "\n\n".join(write_page(Path(notebook.abs_src_path)))
        files.append(File.generated(config, notebook.src_uri.replace(".ipynb", ".md"), content=text))
    files.append(File.generated(config, _SCRIPT, content=read_plotly_js()))
    return files


def write_page(path: Path) -> Iterator[str]:
    """Write a notebook as Markdown, block by block.

    Parameters
    ----------
    path
        The notebook; its cells share their variables, and an error in one of them ends the build.
    """
    title, *cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    yield "".join(title["source"])
    yield f"This page is a notebook: [download it]({path.name}) and run it, or read what it shows here."
    yield f'<script src="{_SCRIPT}"></script>'
    variables: dict[str, Any] = {}
    for number, cell in enumerate(cells, start=1):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
            continue
        yield f"```python\n{source}\n```"
        printed, figure = _run(source, variables)
        if printed:
            yield f"```text\n{printed}```"
        if hasattr(figure, "to_html"):
            # Without a name of ours it would get another one each time that the site is built.
            drawn = figure.to_html(
                full_html=False, include_plotlyjs=False, config={"displayModeBar": False}, div_id=f"figure-{number}"
            )
            yield "".join(line.strip() for line in drawn.splitlines())


def _run(source: str, variables: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell; return what it prints and the value of the expression that it ends with."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), variables)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), variables)
    return printed.getvalue(), value
