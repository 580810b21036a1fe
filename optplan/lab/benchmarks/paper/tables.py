"""Tables and figures as Markdown has them, and changes in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: What a column of numbers consists of: numbers, shares, and what stands where there is none.
_NUMBER = re.compile(r"[-+]?[\d.,]+(\s%)?|no such|")


def write_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table, columns of numbers to the right; without rows, that nothing was run."""
    if not rows:
        return "Not run."
    right = [all(_NUMBER.fullmatch(row[place]) for row in rows) for place in range(len(head))]
    rule = "|" + "".join(" --: |" if each else " --- |" for each in right)
    first, *others = (f"| {' | '.join(row)} |" for row in (head, *rows))
    return "\n".join([first, rule, *others])


def include(figure: str) -> str:
    """Include a figure."""
    return f'<div class="figure">\n--8<-- "docs/assets/paper-{figure}.svg"\n</div>'


def percent(share: float) -> str:
    """Say a share in percent, with its sign."""
    return f"{100 * share:+.1f}\N{NO-BREAK SPACE}%"


def say_change(ratio: float) -> str:
    """Say a ratio as the change in percent."""
    return percent(ratio - 1.0)
