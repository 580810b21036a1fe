"""Pages made of sections: an answer with its proof, main figures, then charts, tables and text under headings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from optplan.instances.files import write_text
from optplan.reporting.rendering import load_template, render
from optplan.reporting.style import Figure, load_plotly
from optplan.reporting.tables import Table


class Card(NamedTuple):
    """A main figure, with what has to be said of it."""

    name: str
    value: str
    note: str = ""


class Swatch(NamedTuple):
    """What a colour stands for in the charts; without a colour it is a dotted line."""

    name: str
    color: str = ""


class Charts(NamedTuple):
    """Charts that are read together.

    Parameters
    ----------
    figures
        Each with what it shows for those who cannot see it.
    reading
        How to read them.
    layout
        ``pair`` or ``multiples`` for charts beside one another where there is room.
    key
        What their colours stand for.
    """

    figures: Sequence[tuple[str, Figure]]
    reading: str = ""
    layout: str = ""
    key: Sequence[Swatch] = ()


class Definitions(NamedTuple):
    """Words or things, each with what is said of it."""

    pairs: Sequence[tuple[str, str]]


class Items(NamedTuple):
    """Sentences that belong together, numbered where their order matters."""

    entries: Sequence[str]
    ordered: bool = False


class Reading(NamedTuple):
    """How to read what stands above."""

    text: str


class Remark(NamedTuple):
    """What the reader should know before reading on."""

    text: str


class Command(NamedTuple):
    """A command line to copy."""

    text: str


#: A text is a paragraph.
Block: TypeAlias = "str | Charts | Table | Definitions | Items | Reading | Remark | Command"


class Section(NamedTuple):
    """A part of a page.

    Parameters
    ----------
    id
        Of its place in the page, without spaces.
    heading
        Its title.
    blocks
        What stands in it, in this order.
    link
        How the contents call it; empty for its title.
    """

    id: str
    heading: str
    blocks: Sequence[Block]
    link: str = ""


class Page(NamedTuple):
    """A page: its heading, what is known, and its sections.

    Parameters
    ----------
    name
        Of the instance; may be empty.
    title
        The answer in a sentence.
    lead
        How good it is.
    badge, badge_kind
        What is known in a few words, and ``good``, ``fair`` or ``bad``.
    warnings
        What the reader should know.
    cards
        The main figures.
    sections
        In their order.
    window_title
        What the browser's window shows; empty for the title.
    """

    name: str
    title: str
    lead: str = ""
    badge: str = ""
    badge_kind: str = "good"
    warnings: Sequence[str] = ()
    cards: Sequence[Card] = ()
    sections: Sequence[Section] = ()
    window_title: str = ""


def require_packages() -> None:
    """Load what pages need, so that a missing package is known before any work."""
    load_plotly()
    load_template()


def build_page(page: Page) -> str:
    """Build a page: one HTML file with everything in it; the same page gives the same text."""
    charts: dict[str, list[tuple[str, str, Figure]]] = {}
    for section in page.sections:
        drawn = [figure for block in section.blocks if isinstance(block, Charts) for figure in block.figures]
        places = enumerate(drawn, start=1)
        charts[section.id] = [(f"chart-{section.id}-{number}", label, figure) for number, (label, figure) in places]
    figures = {name: figure for placed in charts.values() for name, _, figure in placed}
    return render(load_template(), figures, title=page.window_title or page.title, page=page, charts=charts)


def write_page(path: Path | str, page: Page, *, overwrite: bool = False) -> None:
    """Write a page to a file; see :func:`build_page`.

    Raises
    ------
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    """
    write_text(build_page(page), path, overwrite=overwrite)
