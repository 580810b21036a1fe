"""Classes of jobs: by a pattern of their names, by a column, or as their names and sizes suggest."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from optplan.errors import UsageError, show_value
from optplan.instances.job_logs.records import Job, LeftOut
from optplan.units import SECONDS_PER_HOUR

#: Jobs from which a stem is a class of its own.
_FEWEST_JOBS = 5
#: Different numbers after one word from which they are taken for settings of a sweep: ``seed1``, ``seed2``, ...
_SWEEP = 4
#: GPU-hours that part sizes, as the generator of Sia's traces does, and the names of what lies between.
_DECADES = ((1.0, "small"), (10.0, "medium"), (100.0, "large"), (float("inf"), "extra-large"))
_SEPARATORS = re.compile(r"[\s_\-./:=,+#@\[\]()]+")
#: Characters of a word at most; what is longer belongs to one job.
_LONGEST_WORD = 64
#: What is a number, a date or a hash, and so belongs to one job.
_OWN = re.compile(r"\d[\dT]*|[0-9a-f]*\d[0-9a-f]*(?<=[0-9a-f]{6})|v?\d+(?:e\d+)?", re.IGNORECASE)
_HASH = re.compile(r"[0-9a-f]{6,}", re.IGNORECASE)
_WORD_AND_NUMBER = re.compile(r"(?P<word>[A-Za-z]+)(?P<number>\d+)")
#: The class of jobs that have no name.
UNNAMED = "jobs"

Classes = dict[str, list[Job]]


def class_by_pattern(jobs: Iterable[Job], pattern: str, left_out: LeftOut) -> Classes:
    """Name classes by what a regular expression finds in names: its first group, else all; the others are left out."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"class-pattern: {show_value(pattern)} is no regular expression ({error})") from None
    found: dict[str, str] = {}
    classes: Classes = defaultdict(list)
    example = ""
    for job in jobs:
        if job.name not in found:
            match = compiled.search(job.name)
            found[job.name] = "" if match is None else next((g for g in match.groups() if g), match[0])
        example = example or job.name
        if found[job.name]:
            classes[found[job.name]].append(job)
        else:
            left_out.add("jobs whose name the pattern does not fit", 0, show_value(job.name))
    if not classes:
        message = f"class-pattern: {show_value(pattern)} is found in no name, such as {show_value(example)}"
        raise UsageError(f"{message}; correct it, or leave it out for a suggestion")
    return dict(classes)


def class_by_label(jobs: Iterable[Job]) -> Classes:
    """Name classes by the column that the reader was told of; jobs without an entry form a class of their own."""
    return _group(jobs, lambda job: job.label or "unlabelled")


def suggest_classes(jobs: Sequence[Job]) -> Classes:
    """Suggest classes: by the stems of the names, and by GPU-hours where these say nothing.

    A stem is a name without what belongs to one job: numbers, dates, hashes, and words with a number that comes with
    four or more different ones (``seed1`` to ``seed9``; but not ``resnet18`` and ``resnet50``). Stems with fewer than
    five jobs, and all jobs where there is one stem only, are parted by the GPU-hours of a job instead: below 1, 10 and
    100.
    """
    stems = _find_stems({job.name for job in jobs})
    classes = _group(jobs, lambda job: stems[job.name] or UNNAMED)
    rare = [stem for stem, members in classes.items() if len(members) < _FEWEST_JOBS]
    if len(classes) > 1 and len(rare) < 2:
        return classes
    kept = {stem: members for stem, members in classes.items() if stem not in rare} if len(classes) > 1 else {}
    rest = [job for stem, members in classes.items() if stem not in kept for job in members]
    word = next(iter(classes)) if len(classes) == 1 else "other"
    hours = {id(job): job.gpus * (job.run_s or 0.0) / SECONDS_PER_HOUR for job in rest}  # without a run: small
    parted = _group(rest, lambda job: f"{word}-{next(size for most, size in _DECADES if hours[id(job)] < most)}")
    if len(classes) == 1 and len(parted) == 1:
        return classes
    return kept | parted


def _group(jobs: Iterable[Job], name: Callable[[Job], str]) -> Classes:
    classes: Classes = defaultdict(list)
    for job in jobs:
        classes[name(job)].append(job)
    return dict(sorted(classes.items()))


def _find_stems(names: Iterable[str]) -> dict[str, str]:
    """Return the stem of each name; empty where nothing is left."""
    tokens = {name: _SEPARATORS.split(name) for name in names}
    # A log has a million names, and few words that are no number: each of these is looked at once.
    seen = Counter(token for words in tokens.values() for token in words if not token.isdecimal())
    numbers: dict[str, set[str]] = defaultdict(set)
    for token in seen:
        if match := _WORD_AND_NUMBER.fullmatch(token):
            numbers[match["word"]].add(match["number"])

    def is_shared(token: str) -> bool:
        if not token or len(token) > _LONGEST_WORD:
            return False
        if token.isalpha():  # letters of a hash, but for words such as "facade", which come again
            return seen[token] > 1 or not _HASH.fullmatch(token)
        match = _WORD_AND_NUMBER.fullmatch(token)
        return not _OWN.fullmatch(token) and (match is None or len(numbers[match["word"]]) < _SWEEP)

    shared = {token for token in seen if is_shared(token)}
    return {name: "-".join([token for token in words if token in shared]) for name, words in tokens.items()}
