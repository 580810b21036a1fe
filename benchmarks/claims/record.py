"""A claim of a paper, what comes out here, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

#: What was measured for a paper, by the name of the part: plain data, as JSON has it.
Rows = Mapping[str, Any]

#: A figure is reached where it is at least this share of the paper's.
REACHED = 0.95


class Verdict(StrEnum):
    """What is said of a claim, from the best to the least that can be said."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    NOT = "does not hold"
    UNSAID = "cannot be said here"
    NOT_RUN = "not run"
    NOTHING = "nothing to measure"


@dataclass(frozen=True)
class Claim:
    """A claim: in whose words is said what, and what the verdict rests on.

    Every field is one line of Markdown without a vertical bar, since it becomes a cell of a table.
    """

    where: str  #: The place in the paper: ``table 2``, ``figure 9``, ``6.3.1``, ``abstract``.
    says: str  #: The claim, in this project's words.
    paper: str  #: The paper's number, with its unit; empty where it gives none.
    here: str  #: The number here; empty where there is none.
    verdict: Verdict
    why: str  #: One sentence.
    setting: str  #: The set-up that the verdict rests on, and how it differs from the paper's.

    def __post_init__(self) -> None:
        """Refuse what a table cannot hold, and verdicts without a reason."""
        for each in fields(self):
            text = getattr(self, each.name)
            if "|" in text or "\n" in text:
                message = f"the field {each.name} of a claim has a vertical bar or a new line: {text!r}"
                raise ValueError(message)
        for name in ("where", "says", "why", "setting"):
            if not getattr(self, name).strip():
                message = f"the field {name} of the claim {self.where}: {self.says!r} is empty"
                raise ValueError(message)
        measured = self.verdict in {Verdict.HOLDS, Verdict.IN_PART, Verdict.NOT}
        if measured and not self.here:
            message = f"the claim {self.where}: {self.says!r} has the verdict {self.verdict} and no number of ours"
            raise ValueError(message)


@dataclass(frozen=True)
class Chart:
    """A figure of a page: its name in file names, its caption as Markdown, and the SVG."""

    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Scope:
    """What a measurement may take: the folder of the public data (None: there is none), and whether it is a trial."""

    data: Path | None = None
    quick: bool = False


@dataclass(frozen=True)
class Part:
    """A measurement whose rows are kept under one name.

    ``measure`` returns plain data, or None where it cannot run here (``needs`` then says what it wants).
    """

    measure: Callable[[Scope], Any]
    seed: int | None = None
    data: Sequence[str] = ()  #: Files of the public data; without them the part is left out.
    needs: str = ""


def _no_charts(_: Rows) -> list[Chart]:
    return []


def _nothing_more(_: Rows) -> str:
    return ""


@dataclass(frozen=True)
class Paper:
    """A paper: its claims page is ``page`` in the folder of the documentation."""

    name: str
    title: str
    page: str
    intro: str  #: Markdown between the title and the claims.
    list_claims: Callable[[Rows], list[Claim]]
    draw_charts: Callable[[Rows], list[Chart]] = field(default=_no_charts)
    tell: Callable[[Rows], str] = field(default=_nothing_more)  #: Markdown after the charts, with ``##`` headings.


def judge_at_least(here: float, paper: float, *, from_: float = 1.0) -> Verdict:
    """Judge a figure of which more is better; from ``from_`` on (no effect) to the paper's it holds in part."""
    if here >= REACHED * paper:
        return Verdict.HOLDS
    return Verdict.IN_PART if here > from_ else Verdict.NOT


def judge_near(here: float, paper: float, share: float) -> Verdict:
    """Judge a figure that should be the paper's: within ``share`` of it, it holds; within twice that, in part."""
    off = abs(here - paper) / abs(paper)
    return Verdict.HOLDS if off <= share else Verdict.IN_PART if off <= 2 * share else Verdict.NOT


def judge_all(which: Sequence[bool]) -> Verdict:
    """Judge a claim of several cases: all hold, some do, none does."""
    return Verdict.HOLDS if all(which) else Verdict.IN_PART if any(which) else Verdict.NOT


def not_run(where: str, says: str, paper: str, setting: str, why: str = "") -> Claim:
    """Make the row of a claim whose part was not measured."""
    return Claim(where, says, paper, "", Verdict.NOT_RUN, why or "The measurement was not made yet.", setting)
