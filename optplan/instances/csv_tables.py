"""CSV tables, read row by row: columns are found by name, complaints name the file, and the line where there is one."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from optplan.errors import DataError, MissingExtraError, show_value
from optplan.schema import LARGEST_EXACT

if TYPE_CHECKING:
    from types import ModuleType
    from typing import TextIO

#: Characters of a table, and of one of its lines.
LARGEST_TABLE, LONGEST_LINE = 1_000_000_000, 1_000_000
#: Rows, or characters, that are read at once.
_ROWS_AT_ONCE, _CHARACTERS_AT_ONCE = 5_000, 1_000_000
#: Characters of another library's reason that are shown.
_LONGEST_REASON = 200


def read_header(path: Path, *, delimiter: str = ",") -> list[str]:
    """Return the names of the columns."""
    first = next((rows[0] for _, rows in read_blocks(path, delimiter=delimiter) if rows), None)
    if first is None:
        raise _refuse_empty(path, "the columns")
    return [name.strip() for name in first]


def read_rows(
    path: Path, columns: Sequence[str], *, delimiter: str = ",", open_end: bool = False
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each row's line, from 1, and its fields of at least two columns as text; also of Parquet."""
    # With ``open_end`` rows may have more fields than the header: the last column, which is not wanted, is a list
    # without quotes.
    header: list[str] = []
    for lines, rows in read_blocks(path, delimiter=delimiter):
        for line, row in zip(lines, rows, strict=True):
            if not header:
                header = [name.strip() for name in row]
                pick = itemgetter(*_positions(path, header, columns))
            elif len(row) == len(header) or (open_end and len(row) > len(header)):
                yield line, pick(row)
            else:
                problem = f"{len(row)} fields where the header has {len(header)}"
                raise DataError(f"{path}:{line}", problem, "complete the row; the file may be cut off")
    if not header:
        raise _refuse_empty(path, ", ".join(columns))


def is_parquet(path: Path) -> bool:
    """Whether a table is Parquet, by its name."""
    return path.suffix.lower() == ".parquet"


def load_polars() -> ModuleType:
    """Return Polars, which reads and writes Parquet; a MissingExtraError where it is not installed."""
    try:
        import polars
    except ModuleNotFoundError:
        raise MissingExtraError("polars", "logs") from None
    module: ModuleType = polars
    return module


def _read_parquet(path: Path) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Yield the rows of a Parquet table as text; the names count as the first line."""
    polars = load_polars()
    try:
        frame = polars.read_parquet(path, glob=False)
        yield [1], [frame.columns]
        for start in range(0, frame.height, _ROWS_AT_ONCE):
            rows = frame[start : start + _ROWS_AT_ONCE].cast(polars.String).fill_null("").rows()
            yield range(start + 2, start + 2 + len(rows)), [list(row) for row in rows]
    except FileNotFoundError:
        raise DataError(str(path), "there is no such file", "correct the path, or fetch the file") from None
    except polars.exceptions.PolarsError as error:
        why = str(error).partition("\n")[0][:_LONGEST_REASON]
        raise DataError(str(path), f"cannot be read as Parquet ({why})", "save it as Parquet or CSV") from None


def read_blocks(path: Path, *, delimiter: str, quoted: bool = True) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Yield rows many at once, with the line of each, the first line like any other; empty lines are no rows."""
    if is_parquet(path):
        yield from _read_parquet(path)
        return
    if quoted:
        with _open_table(path, newline="") as file:
            rows = csv.reader(_read_lines(path, file), strict=True, delimiter=delimiter)
            try:
                while block := [(rows.line_num, row) for row in islice(rows, _ROWS_AT_ONCE)]:
                    yield [line for line, row in block if row], [row for _, row in block if row]
            except csv.Error as error:
                problem = f"line {rows.line_num} is not valid CSV ({error})"
                raise DataError(str(path), problem, "correct the line") from None
        return
    # Without quotes a row is a line, which is split in half the time that a reader of CSV takes.
    line, rest, left = 1, "", LARGEST_TABLE
    with _open_table(path, newline=None) as file:
        while (text := file.read(_CHARACTERS_AT_ONCE)) or rest:
            lines = (rest + text).split("\n")
            rest = lines.pop() if text else ""
            left -= len(text)
            _check_size(path, max(map(len, lines), default=len(rest)), left)
            numbers: Sequence[int] = range(line, line + len(lines))
            line += len(lines)
            if "" in lines:
                numbers = [number for number, each in zip(numbers, lines, strict=True) if each]
            yield numbers, [each.split(delimiter) for each in lines if each]


@contextmanager
def _open_table(path: Path, newline: str | None) -> Iterator[TextIO]:
    """Open a file of text, with or without the byte order mark that spreadsheets write."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield file
    except FileNotFoundError:
        raise DataError(str(path), "there is no such file", "correct the path, or fetch the file") from None
    except OSError as error:
        raise DataError(str(path), f"cannot be read ({error.strerror})", "correct the path") from None
    except UnicodeDecodeError as error:
        raise DataError(str(path), f"is not UTF-8 text ({error.reason})", "save it as a CSV file in UTF-8") from None


def _read_lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, no more and no longer ones than a table has."""
    left = LARGEST_TABLE
    while line := file.readline(LONGEST_LINE):
        left -= len(line)
        _check_size(path, len(line), left)
        yield line


def _check_size(path: Path, longest: int, left: int) -> None:
    if longest >= LONGEST_LINE:
        raise DataError(str(path), f"has a line of {LONGEST_LINE:,} characters or more", "is it a table?")
    if left < 0:
        problem = f"is larger than {LARGEST_TABLE:,} characters, which is what is read at most"
        raise DataError(str(path), problem, "leave out rows that are not needed")


def _refuse_empty(path: Path, needed: str) -> DataError:
    return DataError(str(path), "the file is empty", f"its first line must name {needed}")


def _positions(path: Path, header: list[str], columns: Sequence[str]) -> list[int]:
    missing = [name for name in columns if name not in header]
    if missing:
        problem = f"no column {', '.join(missing)}; found {', '.join(header)}; needed {', '.join(columns)}"
        raise DataError(str(path), problem, "rename or add the columns in the first line")
    twice = [name for name in columns if header.count(name) > 1]
    if twice:
        raise DataError(str(path), f"two columns are named {twice[0]}", "keep one of them")
    return [header.index(name) for name in columns]


def parse_number(path: Path, line: int, column: str, text: str, *, least: float = 0.0) -> float:
    """Read a finite number of at least ``least``."""
    number = _to_float(text)
    if not (math.isfinite(number) and number >= least):
        problem = f"{column} is {show_value(text)}; a number of at least {least:g} is needed"
        raise DataError(f"{path}:{line}", problem, "correct the row; the file may be cut off")
    return number


def parse_whole(path: Path, line: int, column: str, text: str) -> int:
    """Read a whole number from 1 to 2^53; ``4.0`` is one."""
    number = _to_float(text)
    if not (1.0 <= number <= LARGEST_EXACT and number.is_integer()):
        problem = f"{column} is {show_value(text)}; a whole number of at least 1 is needed, up to 2^53"
        raise DataError(f"{path}:{line}", problem, "correct the row; the file may be cut off")
    return int(number)


def _to_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
