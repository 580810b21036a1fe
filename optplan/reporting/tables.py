"""Tables of text, which a terminal and a page show alike.

A terminal that is too narrow for a table gets its columns in several tables below one another, each of which begins
with the columns that name the rows, or its rows one by one; no name and no number is broken. Every cell is plain text,
so that brackets in users' names are not read as markup. rich loads on use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

from optplan.errors import show_text
from optplan.reporting.phrases import NOTHING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text

#: What rich shows; it loads on use.
Shown: TypeAlias = "RenderableType"

_Record = TypeVar("_Record")
#: Blanks at the end of a line, and the styles that end after them.
_TRAILING_BLANKS = re.compile(r"[ \t]+((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
#: Largest number that a table of records writes with all its digits before the point.
_MOST_DIGITS = 6
#: Texts that are longer are wrapped where there is no room for them; shorter ones, such as names, are not.
_PROSE = 24
#: Characters at most of a column whose texts may always be wrapped.
_WRAPPED = 26
#: Tables below one another that a narrow terminal gets at most; beyond, every row stands by itself.
_MOST_PARTS = 2
#: Between two columns on a terminal.
_GAP = 3
#: What sets a part of a group off from the group's name on a terminal.
_INDENT = "  "


class Column(NamedTuple):
    """A column of a table: its heading, whether it holds numbers, and how a page sets its cells."""

    name: str
    is_number: bool = False
    style: str = ""


def numeric(name: str, style: str = "") -> Column:
    """Return a column of numbers."""
    return Column(name, is_number=True, style=style)


def numbers(*names: str) -> tuple[Column, ...]:
    """Return columns of numbers, by their headings."""
    return tuple(map(numeric, names))


class Cell(NamedTuple):
    """A cell set in a way of its own; of several rows or columns, those below hold None, those beside nothing."""

    text: str
    style: str = ""  #: A class of the style sheet.
    rows: int = 1
    columns: int = 1
    note: str = ""  #: Small print, on a page only.


Content: TypeAlias = "str | Cell | None"
#: The columns of records of a kind, and how each writes its cell of one; a column without that is left out.
Columns: TypeAlias = Mapping[Column, Callable[[_Record], Content] | None]


class Row(NamedTuple):
    """A row that a page sets in a way of its own: ``own``, ``part`` or ``next``; it may begin a group of rows."""

    cells: Sequence[Content]
    style: str = ""
    starts_group: bool = False


@dataclass(frozen=True)
class Table:
    """A table of text, whose first ``num_keys`` columns name a row; cells that are missing at its end are empty."""

    caption: str  #: Not shown in a terminal.
    columns: Sequence[Column]
    rows: Sequence[Row | Sequence[Content]]
    num_keys: int = 1
    rest: str = ""  #: What is left out.
    is_sortable: bool = False  #: Whether readers of a page may sort its rows; a long one gets a bar of its own.

    @property
    def set_rows(self) -> list[Row]:
        """All rows in the form that pages and terminals lay out."""
        return [row if isinstance(row, Row) else Row(row) for row in self.rows]

    @property
    def has_groups(self) -> bool:
        """Whether rows stand in groups."""
        return any(row.starts_group for row in self.set_rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Shown]:
        """Lay the table out for a terminal, in as many parts as its width asks for."""
        texts = [_write_row(row, len(self.columns)) for row in self.set_rows]
        spans = [_Span.of(column, [row[place] for row in texts]) for place, column in enumerate(self.columns)]
        parts = _divide(spans, self.num_keys, options.max_width)
        fits = all(_needed([spans[place] for place in places]) <= options.max_width for places in parts)
        if not fits or len(parts) > _MOST_PARTS:
            yield from self._stack(texts)
        else:
            for number, places in enumerate(parts):
                if number:
                    yield ""
                yield self._lay_out(places, spans, texts, options.max_width)
        if self.rest:
            yield plain_text(self.rest)

    def _stack(self, texts: Sequence[Sequence[str]]) -> Iterator[Shown]:
        """Lay out each row by itself: what names it, and what each other column says, one below the other."""
        names = [column.name for column in self.columns[self.num_keys :]]
        for number, cells in enumerate(texts):
            if number:
                yield ""
            yield plain_text("  ".join(filter(None, cells[: self.num_keys])), "bold")
            facts = [(name, text) for name, text in zip(names, cells[self.num_keys :], strict=True) if text]
            yield fact_table(facts)

    def _lay_out(
        self, places: Sequence[int], spans: Sequence[_Span], texts: Sequence[Sequence[str]], width: int
    ) -> RichTable:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable

        table = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        widths = _share_width([spans[place] for place in places], width)
        for place, chars in zip(places, widths, strict=True):
            column = self.columns[place]
            justify: Literal["left", "right"] = "right" if column.is_number else "left"
            table.add_column(plain_text(column.name, "bold"), justify=justify, overflow="fold", width=chars)
        for row, cells in zip(self.set_rows, texts, strict=True):
            if row.starts_group and table.row_count:
                table.add_section()
            style = "bold" if row.style == "group" else ""
            table.add_row(*(_indented(cells[place], style) for place in places))
        return table


def tabulate(
    caption: str,
    columns: Columns[_Record],
    records: Iterable[_Record],
    num_keys: int = 1,
    rest: str = "",
    own: Callable[[_Record], bool] = lambda _: False,
) -> Table:
    """Make a table with a row for each record; those that are the reader's ``own`` stand out on a page."""
    written = {column: write for column, write in columns.items() if write is not None}
    rows: list[Row | Sequence[Content]] = []
    for record in records:
        cells = tuple(write(record) for write in written.values())
        rows.append(Row(cells, "own") if own(record) else cells)
    return Table(caption, tuple(written), rows, num_keys, rest)


class _Span(NamedTuple):
    """How many characters a column needs at least, so that no word is broken, and at most."""

    least: int
    most: int

    @classmethod
    def of(cls, column: Column, texts: Sequence[str]) -> _Span:
        from rich.cells import cell_len

        widest = max(map(cell_len, [column.name, *texts]))
        words = [_indent(text) + cell_len(word) for text in [column.name, *texts] for word in text.split()]
        whole = [cell_len(text) for text in texts if cell_len(text) <= _PROSE]
        least = max([*words, *whole], default=0)
        return cls(least, max(least, min(widest, _WRAPPED)) if column.style == "wraps" else widest)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _indented(text: str, style: str) -> RenderableType:
    """Let further lines of a text begin where the first one does."""
    from rich.padding import Padding

    return Padding(plain_text(text.lstrip(), style), (0, 0, 0, _indent(text))) if text else ""


def _write_row(row: Row, num_columns: int) -> list[str]:
    """Write the text of each cell; what belongs to a cell above or beside is empty."""
    texts: list[str] = []
    for cell in row.cells:
        texts.append("" if cell is None else show_text(cell if isinstance(cell, str) else cell.text))
        texts += [""] * (cell.columns - 1 if isinstance(cell, Cell) else 0)
    if row.style == "part":
        texts[0] = f"{_INDENT}{texts[0]}"
    return texts + [""] * (num_columns - len(texts))


def _divide(spans: Sequence[_Span], num_keys: int, width: int) -> list[list[int]]:
    """Divide columns into parts that fit side by side, each with the columns that name the rows."""
    keys = list(range(min(num_keys, len(spans))))
    parts = [list(keys)]
    for place in range(len(keys), len(spans)):
        if len(parts[-1]) > len(keys) and _needed([spans[one] for one in (*parts[-1], place)]) > width:
            parts.append(list(keys))
        parts[-1].append(place)
    return parts


def _needed(spans: Sequence[_Span]) -> int:
    return sum(span.least for span in spans) + _GAP * (len(spans) - 1)


def _share_width(spans: Sequence[_Span], width: int) -> list[int]:
    """Give columns what they need; where there is less room, the widest ones give way first, to what they need."""
    room = width - _GAP * (len(spans) - 1)
    highest = max((span.most for span in spans), default=0)
    for level in range(highest, 0, -1):
        widths = [max(span.least, min(span.most, level)) for span in spans]
        if sum(widths) <= room or level == 1:
            break
    while sum(widths) > max(room, len(widths)):  # not even single words fit: the longest are broken
        widths[widths.index(max(widths))] -= 1
    return widths


def fact_table(facts: Iterable[tuple[str, str]]) -> RichTable:
    """Make a table of names and what is said of them."""
    from rich.table import Table as RichTable

    table = RichTable.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(plain_text(name), plain_text(text))
    return table


def record_table(name: str, records: Iterable[Mapping[str, object]], *, num_keys: int = 1) -> Shown:
    """Show records with the same fields, a row each; what is empty in all is left out, mappings are ``name=value``."""
    from rich.console import Group

    rows = [{field: _write_value(value) for field, value in record.items()} for record in records]
    if not rows:
        return plain_text(f"{name}: none")
    fields = [field for field in rows[0] if any(row[field] != NOTHING for row in rows)]
    columns = [Column(field.replace("_", " "), all(_is_number(row[field]) for row in rows)) for field in fields]
    table = Table(name, columns, [[row[field] for field in fields] for row in rows], num_keys)
    return Group(plain_text(f"{name} ({len(rows)})", "bold"), table)


def write_parts(console: Console, parts: Iterable[Shown]) -> str:
    """Write texts and tables as a console shows them."""
    with console.capture() as text:
        for part in parts:
            # What comes from the user's files is shown and not obeyed; tables see to their cells themselves.
            console.print(show_text(part) if isinstance(part, str) else part, markup=False)
    # Tables fill their last column with blanks, which copies and comparisons of the text would carry along.
    return _TRAILING_BLANKS.sub(r"\1", text.get())


def plain_text(text: str, style: str = "") -> Text:
    """Make a text in which nothing is markup, and nothing is for the terminal to obey."""
    from rich.text import Text

    return Text(show_text(text), style=style)


def _write_value(value: object) -> str:
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if value.is_integer() and abs(value) < 10**_MOST_DIGITS else f"{value:.6g}"
        case Mapping():
            return ", ".join(f"{name}={_write_value(item)}" for name, item in value.items()) or NOTHING
        case list() | tuple():
            return ", ".join(_write_value(item) for item in value) or NOTHING
        case _:
            return str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == NOTHING
    return True
