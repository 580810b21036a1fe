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
from typing import Any

#: What draws the figures of a notebook, beside the pages.
SCRIPT = "assets/plotly.js"


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
    yield f'<script src="{SCRIPT}"></script>'
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
