"""Pages made of sections: an answer with its proof, main figures, then charts, tables and text under headings.

A page is one HTML file that needs neither network nor server. Everything that comes from the user is escaped, in the
text by jinja2 and in the charts by this package; a content security policy in the page forbids every script but its
own, and every connection. plotly.js is in the page in compressed form, and its own script unpacks it.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from optplan.errors import MissingExtraError, show_text
from optplan.instances.files import write_text
from optplan.reporting.phrases import capitalise
from optplan.reporting.style import Figure, load_plotly
from optplan.reporting.tables import Table

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup
#: A text is a paragraph.
Block: TypeAlias = "str | Charts | Table | Definitions | Items | Reading | Remark | Command"
_TEMPLATE = "page.html"
#: Lines and bars, a quarter of plotly.js; make gets it, and it is in the wheel.
_PLOTLY_PART = "plotly-basic.min.js"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|min|h|d|%|GPUs?)(?!\w))")
_CODE = re.compile(r"`([^`]+)`")


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
    """Charts that are read together, each with what it shows for those who cannot see it."""

    figures: Sequence[tuple[str, Figure]]
    reading: str = ""  #: How to read them.
    layout: str = ""  #: ``pair`` or ``multiples``: beside one another where there is room.
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


class Section(NamedTuple):
    """A part of a page."""

    id: str
    heading: str
    blocks: Sequence[Block]
    link: str = ""  #: How the contents call it; empty for its heading.
    place: str = ""  #: ``half``: beside another where there is room; ``folded``: shut at first, after the open ones.
    follows: bool = False  #: Whether it follows the page's control; others are marked where that was moved.


class Control(NamedTuple):
    """One thing to try on a page: an amount that figures, texts and pictures follow, by ``control.js``."""

    name: str  #: What is tried: ``budget``.
    unit: str  #: In which unit, as links and commands write it: ``gpu``.
    said: str  #: What the plans that it shows are, and what they are not.
    command: str  #: What solves for one amount, ``{given}`` in its place.
    data: Mapping[str, Any]  #: What the script needs; plain data.


class Page(NamedTuple):
    """A page: its heading, what is known, and its sections."""

    name: str
    title: str
    lead: str = ""
    badge: str = ""  #: What is known in a few words.
    badge_kind: str = "good"  #: Or ``fair``, ``bad``.
    warnings: Sequence[str] = ()
    cards: Sequence[Card] = ()
    sections: Sequence[Section] = ()
    window_title: str = ""  #: Empty for the title.
    live: str = ""  #: Of a page that follows what it shows: who is at work there. It asks the server that it came from.
    control: Control | None = None

    @property
    def parts(self) -> tuple[list[Section], list[Section]]:
        """The open sections, and the folded ones, which follow them."""
        folded = [section for section in self.sections if section.place == "folded"]
        return [section for section in self.sections if section.place != "folded"], folded


def require_packages() -> None:
    """Load what pages need, so that a missing package is known before any work."""
    load_plotly()
    load_template()


def build_page(page: Page) -> str:
    """Build a page: one HTML file with everything in it; the same page gives the same text."""
    charts = _place_charts(page.sections)
    figures = {name: figure for placed in charts.values() for name, _, figure in placed}
    names = _list_scripts(page, figures)
    plotly_js, scripts = read_plotly_js() if names else "", [_read_part(name) for name in names]
    return load_template().render(
        title=page.window_title or page.title,
        page=page,
        charts=charts,
        figures=_embed({name: json.loads(figure.to_json()) for name, figure in figures.items()}),
        tried="" if page.control is None else _embed(page.control.data),
        css=_read_part("report.css"),
        packed=pack(plotly_js),
        scripts=scripts,
        # A content security policy names scripts by their content.
        script_hashes=[
            "sha256-" + base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()
            for one in (plotly_js, *scripts)
            if one
        ],
    )


def build_parts(page: Page, ids: Sequence[str]) -> dict[str, Any]:
    """Build what ``control.js`` puts in place of heading, cards and some sections: HTML, and figures."""
    charts = _place_charts([section for section in page.sections if section.id in ids])
    html = load_template().render(page=page, charts=charts, parts=ids)
    figures = {name: json.loads(figure.to_json()) for placed in charts.values() for name, _, figure in placed}
    return {"html": html, "figures": figures}


def _place_charts(sections: Sequence[Section]) -> dict[str, list[tuple[str, str, Figure]]]:
    charts: dict[str, list[tuple[str, str, Figure]]] = {}
    for section in sections:
        drawn = [figure for block in section.blocks if isinstance(block, Charts) for figure in block.figures]
        places = enumerate(drawn, start=1)
        charts[section.id] = [(f"chart-{section.id}-{number}", label, figure) for number, (label, figure) in places]
    return charts


def _list_scripts(page: Page, figures: Mapping[str, Figure]) -> list[str]:
    """List the scripts of a page: only where there is something to draw, to follow, to sort or to try."""
    if not figures and not page.live:
        return []
    blocks = [block for section in page.sections for block in section.blocks]
    is_sortable = any(isinstance(block, Table) and block.is_sortable for block in blocks)
    also = {"live.js": is_sortable or page.live, "control.js": page.control is not None}
    return ["report.js", *(name for name, wanted in also.items() if wanted)]


def write_page(path: Path | str, page: Page, *, overwrite: bool = False) -> None:
    """Write a page to a file; see :func:`build_page`."""
    write_text(build_page(page), path, overwrite=overwrite)


@functools.lru_cache(maxsize=4)  # the same plotly.js stands in every page
def pack(text: str) -> str:
    """Compress a text, as a page's scripts unpack it."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _embed(data: Mapping[str, Any]) -> str:
    """Write data as JSON that can stand in a page: no character in it can end the element around it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@functools.cache
def load_template() -> Template:
    """Load the template of pages."""
    try:
        from jinja2 import DictLoader, Environment, StrictUndefined
    except ModuleNotFoundError:
        raise MissingExtraError("jinja2", "plot") from None
    environment = Environment(
        loader=DictLoader({_TEMPLATE: _read_part(_TEMPLATE)}),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_keep_units,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["start_large"] = capitalise
    environment.filters["prose"] = _mark_code
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment.get_template(_TEMPLATE)


def _keep_units(value: object) -> object:
    """Keep a number and its unit on one line, show what a page would obey; what is marked as safe already stays."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", show_text(value)) if type(value) is str else value


def _mark_code(text: str) -> Markup:
    """Escape a text, and set what stands in backticks as code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(_keep_units(text)))))


def _read_part(name: str) -> str:
    return files("optplan.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def read_plotly_js() -> str:
    """Return plotly.js: the part of it that draws these charts, where the installation has that, or else all of it."""
    load_plotly()
    part = files("optplan.reporting").joinpath("templates", _PLOTLY_PART)
    if part.is_file():
        return part.read_text(encoding="utf-8")
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
