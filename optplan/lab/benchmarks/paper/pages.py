"""The page: ``page.md`` with figures and tables, from what was gathered."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from optplan.instances.files import write_text
from optplan.lab.benchmarks.paper.figures import draw_figures
from optplan.lab.benchmarks.paper.gathering import FIGURE5_GPUS, FIGURE7_GPUS, FIGURE9_GPUS, Gathered
from optplan.lab.benchmarks.paper.sections import list_tables
from optplan.units import SECONDS_PER_HOUR

_PAGE = Path(__file__).with_name("page.md")


def write_page(told: Gathered, docs: Path, *, command: str) -> list[Path]:
    """Write ``paper.md`` and its figures into the folder of the documentation; returns what was written."""
    figures = draw_figures(told)
    paths = []
    for name, svg in figures.items():
        paths.append(docs / "assets" / f"paper-{name}.svg")
        write_text(svg + "\n", paths[-1], overwrite=True)
    left = f"**{told.left} cells are not run yet**: points and rows that need them are absent, or say *not run*."
    text = _PAGE.read_text(encoding="utf-8").format(
        told=told,
        command=command,
        left=left if told.left else "",
        size=", of sub-traces (`--quick`)" if told.quick else "",
        cpu_h=sum(seconds for _, seconds in told.taken.values()) / SECONDS_PER_HOUR,
        minutes=told.seconds / 60,
        figure5_gpus=FIGURE5_GPUS,
        figure7_gpus=FIGURE7_GPUS,
        figure9_gpus=FIGURE9_GPUS,
        figures=defaultdict(str, {name: _include(name) for name in figures}),
        **list_tables(told),
    )
    paths.append(docs / "paper.md")
    # Where something is absent, one empty line is enough.
    write_text(re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n", paths[-1], overwrite=True)
    return paths


def _include(figure: str) -> str:
    """Include a figure."""
    return f'<div class="figure">\n--8<-- "docs/assets/paper-{figure}.svg"\n</div>'
