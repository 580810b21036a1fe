"""CSV tables with named columns, read row by row: the form of all public Sia and AdaptDL files.

Columns are found by name, so their order does not matter and further columns are ignored. Every complaint names the
file, and the line where there is one.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from optplan.errors import DataError


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the wanted fields of each row; empty lines are passed over.

    Parameters
    ----------
    path
        A CSV file whose first line names the columns.
    columns
        Names of the wanted columns, at least two.

    Yields
    ------
    tuple
        Line number in the file, from 1, and the fields in the order of ``columns``, as text.

    Raises
    ------
    DataError
        When the file cannot be read, is empty, lacks a column, names one twice, or has a row with another number of
        fields than the header.
    """
    try:
        # utf-8-sig also reads files with the byte order mark that spreadsheets write.
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next((row for row in reader if row), None)
            if header is None:
                raise DataError(str(path), "the file is empty", f"its first line must name {', '.join(columns)}")
            pick = itemgetter(*_positions(path, [name.strip() for name in header], columns))
            for row in reader:
                if len(row) == len(header):
                    yield reader.line_num, pick(row)
                elif row:
                    problem = f"{len(row)} fields where the header has {len(header)}"
                    raise DataError(f"{path}:{reader.line_num}", problem, "complete the row; the file may be cut off")
    except FileNotFoundError:
        raise DataError(str(path), "there is no such file", "correct the path, or fetch the file") from None
    except OSError as error:
        raise DataError(str(path), f"cannot be read ({error.strerror})", "correct the path") from None
    except UnicodeDecodeError as error:
        raise DataError(str(path), f"is not UTF-8 text ({error.reason})", "save it as a CSV file in UTF-8") from None
    except csv.Error as error:
        raise DataError(str(path), f"line {reader.line_num} is not valid CSV ({error})", "correct the line") from None


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
    """Read a finite number of at least ``least``.

    Raises
    ------
    DataError
        Naming file, line, column and what stands there.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= least):
        problem = f"{column} is {text!r}; a number of at least {least:g} is needed"
        raise DataError(f"{path}:{line}", problem, "correct the row; the file may be cut off")
    return number


def parse_whole(path: Path, line: int, column: str, text: str) -> int:
    """Read a whole number of at least 1; ``4.0`` is one.

    Raises
    ------
    DataError
        Naming file, line, column and what stands there.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (number >= 1.0 and number.is_integer()):
        problem = f"{column} is {text!r}; a whole number of at least 1 is needed"
        raise DataError(f"{path}:{line}", problem, "correct the row; the file may be cut off")
    return int(number)
