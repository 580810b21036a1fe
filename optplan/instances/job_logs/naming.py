"""Classes of jobs: by a pattern of their names, by a column, or as their names and sizes suggest."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optplan.errors import UsageError, show_value
from optplan.instances.job_logs.columns import Jobs, TextArray, Words, iterate
from optplan.instances.job_logs.records import LeftOut
from optplan.units import SECONDS_PER_HOUR

#: Jobs from which a stem is a class of its own.
_FEWEST_JOBS = 5
#: Different numbers after one word from which they are taken for settings of a sweep: ``seed1``, ``seed2``, ...
_SWEEP = 4
#: GPU-hours that part sizes, as the generator of Sia's traces does, and the names of what lies between.
_DECADES = ((1.0, "small"), (10.0, "medium"), (100.0, "large"), (float("inf"), "extra-large"))
_SEPARATOR = r"\s_\-./:=,+#@\[\]()"
_SEPARATORS = re.compile(f"[{_SEPARATOR}]+")
#: Characters of a word at most; what is longer belongs to one job.
_LONGEST_WORD = 64
#: What is a number, a date or a hash, and so belongs to one job. A search is quick that looks for a first letter.
_OWN = re.compile(
    rf"[0-9a-fA-FvV](?<=[{_SEPARATOR}].)"
    r"(?:(?<=\d)[\dtT]*|(?<=\d)\d*(?:[eE]\d+)?|(?<=[vV])\d+(?:[eE]\d+)?"  # dates, numbers, versions
    r"|(?<=\d)[0-9a-fA-F]{5,}|[0-9a-fA-F]*\d[0-9a-fA-F]*(?<=[0-9a-fA-F]{6}))"  # hashes
    rf"(?![^{_SEPARATOR}])",
    re.ASCII,
)
_HASH = re.compile(r"[0-9a-f]{6,}", re.IGNORECASE)
_WORD_AND_NUMBER = re.compile(r"(?P<word>[A-Za-z]+)(?P<number>\d+)")
#: The class of jobs that have no name.
UNNAMED = "jobs"

#: Jobs by class, each with those of the others in one table.
Classes = dict[str, Jobs]


def find_by(pattern: str) -> Callable[[str], str]:
    """Return what finds a class in a name by a regular expression: its first group, else all; empty for nothing."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"class-pattern: {show_value(pattern)} is no regular expression ({error})") from None

    def find(name: str) -> str:
        match = compiled.search(name)
        if match is None or not compiled.groups:
            return match[0] if match else ""
        return next((group for group in match.groups() if group), match[0])

    return find


def class_by_pattern(jobs: Jobs, pattern: str, left_out: LeftOut) -> Classes:
    """Name classes by what a regular expression finds in names; the others are left out."""
    find, words = find_by(pattern), Words()
    nothing = words[""]
    places = np.concatenate([words.column([find(name) for name in names]) for names in iterate(jobs.name)])
    lost = np.flatnonzero(places == nothing)
    if lost.size:
        example = show_value(jobs.name[lost[0]])
        left_out.add("jobs whose name the pattern does not fit", wrong=example, count=lost.size)
    if lost.size == len(jobs):
        example = next((name for names in iterate(jobs.name) for name in names if name), "")
        message = f"class-pattern: {show_value(pattern)} is found in no name, such as {show_value(example)}"
        raise UsageError(f"{message}; correct it, or leave it out for a suggestion")
    classes = _divide(jobs, places, list(words))
    classes.pop("", None)
    return classes


def class_by_label(jobs: Jobs) -> Classes:
    """Name classes by the column that the reader was told of; jobs without an entry form a class of their own."""
    return dict(sorted(_divide(jobs, jobs.label, [word or "unlabelled" for word in jobs.words]).items()))


def suggest_classes(jobs: Jobs) -> Classes:
    """Suggest classes: by the stems of the names, and by GPU-hours where these say nothing.

    A stem is a name without what belongs to one job: numbers, dates, hashes, and words with a number that comes with
    four or more different ones (``seed1`` to ``seed9``; but not ``resnet18`` and ``resnet50``). Stems with fewer than
    five jobs, and all jobs where there is one stem only, are parted by the GPU-hours of a job instead: below 1, 10 and
    100.
    """
    places, stems = _find_stems(jobs.name)
    counts = np.bincount(places, minlength=len(stems))
    if len(stems) > 1 and (counts < _FEWEST_JOBS).sum() < 2:
        return dict(sorted(_divide(jobs, places, stems).items()))
    kept = (counts >= _FEWEST_JOBS) & (len(stems) > 1)
    word = stems[0] if len(stems) == 1 else "other"
    hours = np.nan_to_num(jobs.run_s) * jobs.gpus / SECONDS_PER_HOUR  # without a run: small
    sizes = np.searchsorted([most for most, _ in _DECADES], hours, side="right")
    if len(stems) == 1 and np.unique(sizes).size == 1:
        return _divide(jobs, places, stems)
    parted = np.where(kept[places], places, len(stems) + sizes)
    by_size = [f"{word}-{size}" for _, size in _DECADES]
    classes = _divide(jobs, parted, [*stems, *by_size])
    return dict(sorted(classes.items(), key=lambda each: (each[0] in by_size, each[0])))


def _divide(jobs: Jobs, places: NDArray[np.integer[Any]], names: Sequence[str]) -> Classes:
    """Return the jobs of each class (N,), in the order of their names; the jobs are put in that order, too."""
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=len(names))).tolist()
    jobs.keep(order)
    classes = {}
    for name, start, end in zip(names, [0, *ends], ends, strict=False):
        if end > start:
            classes[name] = jobs[start:end]
    return classes


def _find_stems(names: TextArray) -> tuple[NDArray[np.integer[Any]], list[str]]:
    """Return the place of the stem of each name (N,), and the stems; one is empty where nothing is left."""
    # A log has a million names. Without what is surely one job's, few are different.
    cores = Words()
    places = np.concatenate([cores.column(_strip(texts)) for texts in iterate(names)])
    tokens = {core: [token for token in _SEPARATORS.split(core) if token] for core in cores}
    seen: Counter[str] = Counter()
    for words, count in zip(tokens.values(), np.bincount(places, minlength=len(cores)).tolist(), strict=True):
        for token in words:
            seen[token] += count
    numbers: dict[str, set[str]] = defaultdict(set)
    for token in seen:
        if match := _WORD_AND_NUMBER.fullmatch(token):
            numbers[match["word"]].add(match["number"])

    def is_shared(token: str) -> bool:
        if len(token) > _LONGEST_WORD:
            return False
        if token.isalpha():  # letters of a hash, but for words such as "facade", which come again
            return seen[token] > 1 or not _HASH.fullmatch(token)
        match = _WORD_AND_NUMBER.fullmatch(token)
        return match is None or len(numbers[match["word"]]) < _SWEEP

    shared = {token for token in seen if is_shared(token)}
    stems = Words()
    stem_of = stems.column(
        ["-".join([token for token in words if token in shared]) or UNNAMED for words in tokens.values()]
    )
    return stem_of[places], list(stems)


def _strip(names: list[str]) -> list[str]:
    """Return names without numbers, dates and hashes; all of them at once, which takes a tenth of the time."""
    joined = "\n".join(["", *names])
    if joined.count("\n") != len(names):
        joined = "\n".join(["", *(name.replace("\n", " ") for name in names)])
    return _OWN.sub("", joined).split("\n")[1:]
