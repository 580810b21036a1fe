"""Tables and figures as Markdown has them, and changes in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

#: What a column of numbers consists of: numbers, shares, and what stands where there is none.
_NUMBER = re.compile(r"[-+]?[\d.,]+(\s%)?|no such|")


def write_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Write a Markdown table, columns of numbers to the right; without rows, that nothing was run."""
    if not rows:
        yield from ("Not run.", "")
        return
    right = [all(_NUMBER.fullmatch(row[place]) for row in rows) for place in range(len(head))]
    yield from (f"| {' | '.join(head)} |", "|" + "".join(" --: |" if each else " --- |" for each in right))
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def include(figures: Collection[str], *names: str) -> Iterator[str]:
    """Include the figures that there are."""
    for name in names:
        if name in figures:
            yield from ('<div class="figure">', f'--8<-- "docs/assets/paper-{name}.svg"', "</div>", "")


def percent(share: float) -> str:
    """Say a share in percent, with its sign."""
    return f"{100 * share:+.1f}\N{NO-BREAK SPACE}%"


def say_change(ratio: float) -> str:
    """Say a ratio as the change in percent."""
    return percent(ratio - 1.0)
