"""Logs as columns: rows, and then jobs, are a few arrays, and what many rows say alike is read once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optplan.instances.csv_tables import read_blocks
from optplan.instances.job_logs.records import BACKWARDS, BROKEN, WRONG_FIELDS, LeftOut, Row
from optplan.schema import FloatArray

#: Texts of which it is remembered what they say.
_MOST_TEXTS = 100_000
#: Rows whose texts are Python's at once.
_ROWS_AT_ONCE = 65_536
#: How much room columns have that were full.
_GROWTH = 4
#: Characters of minutes and seconds at the end of a time, and what their digits are worth.
_TAIL, _SECONDS_OF_DIGITS = len(":37:05"), np.array([600.0, 60.0, 10.0, 1.0])

#: Texts of which every row may have its own, as NumPy keeps them.
TextArray = NDArray[Any]
IntColumn = NDArray[np.int32]
BoolColumn = NDArray[np.bool_]
_TEXT = np.dtypes.StringDType()
#: What is wrong with rows of a block, by their place there.
Wrong = dict[int, str]
#: What reads a column of texts; what is not known is NaN.
ReadColumn = Callable[[Sequence[str], Wrong], FloatArray]


class Words(dict[str, int]):
    """Words of which there are few, each with its place in the order in which they came; new ones get the next."""

    def __missing__(self, word: str) -> int:
        """Add a word."""
        return self.setdefault(word, len(self))

    def column(self, texts: Sequence[str]) -> IntColumn:
        """Return (N,) the places of words."""
        return np.fromiter(map(self.__getitem__, texts), np.int32, len(texts))


class Memo(dict[str, float]):
    """What texts say, each read once, and what is wrong with those that cannot be read."""

    def __init__(self, read: Callable[[str], float | None]) -> None:
        super().__init__()
        self._read, self._wrong = read, dict[str, str]()

    def __missing__(self, text: str) -> float:
        """Read a text."""
        found = None
        try:
            found = self._read(text)
        except ValueError as error:
            self._wrong[text] = str(error)
        return self.setdefault(text, math.nan if found is None else found)

    def column(self, texts: Sequence[str], wrong: Wrong) -> FloatArray:
        """Return (N,) what texts say; see :data:`ReadColumn`."""
        if len(self) > _MOST_TEXTS:
            self.clear()
        found = np.fromiter(map(self.__getitem__, texts), np.float64, len(texts))
        if self._wrong:
            for place, text in enumerate(texts):
                if text in self._wrong:
                    wrong.setdefault(place, self._wrong[text])
            self._wrong.clear()
            self.clear()
        return found


class Times:
    """Reads columns of times or durations: a log has few hours, and of each the same minutes and seconds."""

    def __init__(self, read: Callable[[str], float | None], *, by_hour: bool = True) -> None:
        self._each = Memo(read)
        self._hours = Memo(lambda text: _read_hour(read, text) if by_hour else None)

    def column(self, texts: Sequence[str], wrong: Wrong) -> FloatArray:
        """Return (N,) seconds; see :data:`ReadColumn`."""
        found = np.full(len(texts), np.nan)
        lengths = np.fromiter(map(len, texts), np.intp, len(texts))
        usual = int(np.bincount(lengths, minlength=1).argmax())
        places = np.flatnonzero(lengths == usual)
        joined = "".join([texts[place] for place in places.tolist()])
        if usual >= _TAIL and joined.isascii():  # those that end as in ``:37:05`` take a tenth of the time together
            letters = np.frombuffer(joined.encode(), dtype=np.uint8).reshape(-1, usual)
            head, tail = letters[:, :-_TAIL], letters[:, -_TAIL:]
            digits = tail[:, [1, 2, 4, 5]] - ord("0")
            ends = (tail[:, [0, 3]] == ord(":")).all(axis=1) & (digits <= [5, 9, 5, 9]).all(axis=1)
            begins = np.append(True, (head[1:] != head[:-1]).any(axis=1))  # an hour other than the row's before
            hours = self._hours.column([texts[place][:-_TAIL] for place in places[begins].tolist()], wrong)
            read = hours[np.cumsum(begins) - 1] + digits @ _SECONDS_OF_DIGITS
            found[places[ends]] = read[ends]
        return fill(found, texts, self._each.column, wrong)


def _read_hour(read: Callable[[str], float | None], text: str) -> float | None:
    """Read what stands before minutes and seconds; None where that is no hour."""
    with suppress(ValueError):
        return read(f"{text}:00:00")
    return None


def fill(found: FloatArray, texts: Sequence[str], column: ReadColumn, wrong: Wrong) -> FloatArray:
    """Read texts where nothing is known yet, into the numbers (N,) that are found, and return these."""
    places = np.flatnonzero(np.isnan(found)).tolist()
    if places:
        there: Wrong = {}
        found[places] = column([texts[place] for place in places], there)
        for place, message in there.items():
            wrong.setdefault(places[place], message)
    return found


def fill_from_end(run_s: FloatArray, start_s: FloatArray, end: Sequence[str], times: Times, wrong: Wrong) -> FloatArray:
    """Return (N,) for how long jobs ran: as is known already, else from their start to their end."""
    unknown = np.isnan(run_s) & ~np.isnan(start_s)
    end_s = fill(np.where(unknown, np.nan, 0.0), end, times.column, wrong)
    return np.where(unknown, end_s - start_s, run_s)


@dataclass
class Jobs:
    """N rows of a log, a column for each field of :class:`Row`: NaN is not known, words are places among ``words``."""

    words: Words
    id: TextArray
    name: TextArray
    part: IntColumn
    label: IntColumn
    submit_s: FloatArray
    start_s: FloatArray
    run_s: FloatArray
    gpus: IntColumn
    gpu_type: IntColumn
    ending: IntColumn
    where: IntColumn
    completed: BoolColumn

    @classmethod
    def of(cls, rows: Iterable[Row], words: Words | None = None) -> Jobs:
        """Make columns of rows."""
        words = Words() if words is None else words
        given = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in Row._fields]
        columns = dict(zip(Row._fields, given, strict=True))
        for each in ("part", "label", "gpu_type", "ending"):
            columns[each] = [words[word] for word in columns[each]]
        return cls(words, **{name: np.array(columns[name], dtype=_TYPES.get(name, np.float64)) for name in Row._fields})

    def put(self, block: Jobs, at: int) -> None:
        """Put a block with the same words at a place; room for more takes no memory until it is used."""
        end = at + len(block)
        is_full = end > len(self)
        for name in Row._fields:  # one column after the other, so that no more than one is there twice
            if is_full:
                column = np.empty(_GROWTH * end, dtype=getattr(self, name).dtype)
                column[:at] = getattr(self, name)[:at]
                setattr(self, name, column)
            getattr(self, name)[at:end] = getattr(block, name)

    def __len__(self) -> int:
        """Count them."""
        return self.where.size

    @property
    def arrive_s(self) -> FloatArray:
        """(N,) When they came: when they were submitted, or else started."""
        return np.where(np.isnan(self.submit_s), self.start_s, self.submit_s)

    @property
    def wait_s(self) -> FloatArray:
        """(N,) From their submission to their start, where both are known."""
        return np.maximum(self.start_s - self.submit_s, 0.0)

    def __getitem__(self, which: slice | NDArray[np.intp] | BoolColumn) -> Jobs:
        """Return some of them."""
        return replace(self, **{name: getattr(self, name)[which] for name in Row._fields})

    def keep(self, which: slice | NDArray[np.intp] | BoolColumn) -> None:
        """Leave out all others, column by column, which takes little memory; or put them in another order."""
        for name in Row._fields:
            setattr(self, name, getattr(self, name)[which])

    def list_words(self, places: IntColumn) -> list[str]:
        """Return the words at places (N,)."""
        words = list(self.words)
        return [words[place] for place in places.tolist()]

    def __iter__(self) -> Iterator[Row]:
        """Yield them one by one."""
        for start in range(0, len(self), _ROWS_AT_ONCE):
            block = self[start : start + _ROWS_AT_ONCE]
            columns = {name: getattr(block, name).tolist() for name in Row._fields}
            for each in ("part", "label", "gpu_type", "ending"):
                columns[each] = block.list_words(getattr(block, each))
            for each in ("submit_s", "start_s", "run_s"):
                columns[each] = [None if math.isnan(number) else number for number in columns[each]]
            yield from map(Row, *columns.values())


_TYPES: dict[str, Any] = {
    **dict.fromkeys(("id", "name"), _TEXT),
    **dict.fromkeys(("part", "label", "gpu_type", "ending", "gpus", "where"), np.int32),
    "completed": np.bool_,
}


def to_texts(texts: Sequence[str]) -> TextArray:
    """Return texts (N,) as NumPy keeps them."""
    return np.array(texts, dtype=_TEXT)


def iterate(texts: TextArray) -> Iterator[list[str]]:
    """Yield texts (N,) as Python's, so many at once that they take little memory."""
    for start in range(0, texts.size, _ROWS_AT_ONCE):
        yield texts[start : start + _ROWS_AT_ONCE].tolist()


#: What reads a block: gets its columns and its lines, says what is wrong with some rows, and may leave rows out.
ReadBlock = Callable[[Sequence[Sequence[str]], IntColumn, Wrong], Jobs]


def read_columns(
    path: Path,
    place: Callable[[list[str]], Sequence[int]],
    read: ReadBlock,
    left_out: LeftOut,
    *,
    delimiter: str,
    quoted: bool = True,
) -> Jobs:
    """Return the rows of a table that can be used; what is left out is counted."""
    # ``place`` gets the header and returns the places of what is read; the one after the last is always empty.
    header: list[str] | None = None
    found, count, rows_read = Jobs.of(()), 0, 0
    for lines, rows in read_blocks(path, delimiter=delimiter, quoted=quoted):
        first = 0
        if not rows:
            continue
        if header is None:
            header = [name.strip() for name in rows[0]]
            picked, width, first = place(header), len(header), 1
        block, wrong = _read_block(lines[first:], rows[first:], picked, width, read, left_out)
        rows_read += len(block)
        readable = np.ones(len(block), dtype=np.bool_)
        readable[list(wrong)] = False
        leave_out(block, readable & (block.run_s < 0.0), BACKWARDS, left_out)
        usable = block[readable & ~(block.run_s < 0.0)]
        found.words = usable.words
        found.put(usable, count)
        count += len(usable)
    if header is None:
        place([])
    left_out.require_readable(str(path), rows_read + left_out.count(WRONG_FIELDS))
    found.keep(slice(count))
    return found


def _read_block(
    lines: Sequence[int], rows: list[list[str]], picked: Sequence[int], width: int, read: ReadBlock, left_out: LeftOut
) -> tuple[Jobs, Wrong]:
    """Return the rows of a block, and what is wrong with some; those of another width are counted."""
    if {*map(len, rows)} - {width}:
        lost = [line for line, row in zip(lines, rows, strict=True) if len(row) != width]
        left_out.add(WRONG_FIELDS, lost[0], count=len(lost))
        lines = [line for line, row in zip(lines, rows, strict=True) if len(row) == width]
        rows = [row for row in rows if len(row) == width]
    nothing = [""] * len(rows)
    columns = [[row[at] for row in rows] if at < width else nothing for at in picked]
    wrong: Wrong = {}
    block = read(columns, np.array(lines, dtype=np.int32), wrong)
    for at, message in sorted(wrong.items()):
        left_out.add(BROKEN, int(block.where[at]), message)
    return block, wrong


def leave_out(jobs: Jobs, which: BoolColumn, reason: str, left_out: LeftOut) -> None:
    """Count some of the jobs as left out."""
    if which.any():
        left_out.add(reason, int(jobs.where[which].min()), count=int(which.sum()))
