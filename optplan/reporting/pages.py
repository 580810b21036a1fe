"""Pages made of sections: an answer with its proof, main figures, then charts and tables under headings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from optplan.contracts import Explanation, Instance, Result, Solution, Verification
from optplan.errors import UsageError
from optplan.instances.files import write_text
from optplan.reporting.rendering import load_template, place_charts, render

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class Card:
    """A main figure, with what has to be said of it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Term:
    """A word or a thing, and what is said of it."""

    name: str
    text: str


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are set to the right."""

    name: str
    is_number: bool = False


@dataclass(frozen=True)
class PageTable:
    """A table of text; the first cell of a row names it."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Parameters
    ----------
    id
        Of its place in the page, without spaces.
    heading
        Its title.
    paragraphs
        What comes first.
    charts
        Each with what it shows for those who cannot see it.
    reading
        How to read the charts.
    tables, terms
        Tables, and things explained.
    command
        A command line to copy.
    """

    id: str
    heading: str
    paragraphs: Sequence[str] = ()
    charts: Sequence[tuple[str, Figure]] = ()
    reading: str = ""
    tables: Sequence[PageTable] = ()
    terms: Sequence[Term] = ()
    command: str = ""


@dataclass(frozen=True)
class Page:
    """A page: its heading, what is known, and its sections.

    Parameters
    ----------
    name
        Of the instance.
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
    """

    name: str
    title: str
    lead: str = ""
    badge: str = ""
    badge_kind: str = "good"
    warnings: Sequence[str] = ()
    cards: Sequence[Card] = ()
    sections: Sequence[Section] = field(default=())


def build_sections_page(page: Page) -> str:
    """Build a page: one HTML file with everything in it; the same page gives the same text.

    Raises
    ------
    MissingExtraError
        When plotly or jinja2 is not installed.
    """
    template = load_template("sections.html")
    charts, figures = place_charts({section.id: list(section.charts) for section in page.sections if section.charts})
    return render(template, figures, title=page.title, page=page, charts=charts)


def write_sections_page(path: Path | str, page: Page, *, overwrite: bool = False) -> None:
    """Write a page to a file; see :func:`build_sections_page`.

    Raises
    ------
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    """
    write_text(build_sections_page(page), path, overwrite=overwrite)


@dataclass(frozen=True)
class ReportWriter:
    """Writes the HTML report of a result, for formulations whose plans have no explanations.

    Parameters
    ----------
    plans
        What the plans are called.
    build_page
        Gathers the page from (instance, result, *, rivals, verification, verify_command).
    """

    plans: str
    build_page: Callable[..., Page]

    def __call__(
        self,
        path: Path,
        instance: Instance,
        result: Result[Solution],
        *,
        rivals: Sequence[Result[Solution]],
        explanation: Explanation | None,
        verification: Verification | None,
        verify_command: str,
        overwrite: bool,
    ) -> None:
        """Write the report, as :class:`~optplan.reporting.presenters.Presenter` asks for it.

        Raises
        ------
        UsageError
            When there is an explanation.
        VerificationError
            When the verification failed.
        MissingExtraError
            When plotly or jinja2 is not installed.
        OutputError
            When the file exists and may not be replaced, or cannot be written.
        """
        if explanation is not None:
            raise UsageError(f"explanation: reports of {self.plans} show none; leave it out")
        if verification is not None:
            verification.require()
        page = self.build_page(
            instance, result, rivals=rivals, verification=verification, verify_command=verify_command
        )
        write_sections_page(path, page, overwrite=overwrite)
