"""What fuzzing shares: the numbers of cases, bounds on each, and what is wrong with what a command wrote."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from optplan.cli import main

#: A case that takes more processor time hangs, or one that waits for longer; those that solve are told to take less.
LONGEST_S, LONGEST_WAIT_S = 30, 1800
#: Cases of one test.
EACH = 20
#: Memory that a case may take beside what is there.
MOST_BYTES = 3 * 2**30
#: Characters of a line of stderr: 2,000 of the message; with --json, where some take six, of the path, too.
LONGEST_LINE, LONGEST_RECORD = 2100, 25_000

#: What no reader is to meet, in text, in JSON and in the text of a page.
_UNREADABLE = {
    "a number that is none": re.compile(r"(?<![\w.'\"-])[-+]?(?:nan|inf|NaN|Infinity)\b"),
    "a line end written out": re.compile(r"\\n"),
    "an object": re.compile(r"<[\w.]+ object at 0x|<(?:class|function|bound method) |\b(?:np\.float64|array)\("),
    "None": re.compile(r"\bNone\b(?!\s+of)"),
}
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)
_SCRIPT = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


class Told(NamedTuple):
    """What a command left behind."""

    command: Sequence[str]
    code: int
    out: str
    err: str

    @property
    def is_json(self) -> bool:
        """Whether it was asked for JSON."""
        return "--json" in self.command


Run = Callable[..., Told]
FindFault = Callable[..., str]


@pytest.fixture
def run_bounded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Return a runner of commands in this process; one that hangs or takes all memory fails."""

    def stop(*_: object) -> NoReturn:
        message = f"a case takes more than {LONGEST_S} s of the processor, or {LONGEST_WAIT_S} s in all"
        raise TimeoutError(message)

    limits = resource.getrlimit(resource.RLIMIT_AS)

    def run(command: Sequence[str]) -> Told:
        capsys.readouterr()
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, limits[1]))
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
        signal.alarm(LONGEST_WAIT_S)
        try:
            code = main(list(command))
        finally:
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_AS, limits)  # what makes a case may take what it needs
        written = capsys.readouterr()
        return Told(command, code, written.out, written.err)

    monkeypatch.setenv("COLUMNS", "120")
    before = {each: signal.signal(each, stop) for each in (signal.SIGALRM, signal.SIGPROF)}
    yield run
    for each, handler in before.items():
        signal.signal(each, handler)
    resource.setrlimit(resource.RLIMIT_AS, limits)


def _find_in_text(text: str, patterns: Mapping[str, re.Pattern[str]] = _UNREADABLE) -> str:
    for what, pattern in patterns.items():
        if found := pattern.search(text):
            return f"{what}: ...{text[max(0, found.start() - 80) : found.end() + 40]}..."
    return ""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _find_in_json(text: str) -> str:
    """Say why a text is not JSON, nor an object on each line."""
    for parts in ([text], text.rstrip("\n").split("\n")):
        try:
            for part in parts:
                json.loads(part, parse_constant=_refuse_constant)
        except ValueError as error:
            why = f"invalid JSON ({error}): {text[:200]}"
        else:
            return ""
    return why


def _find_in_error(told: Told) -> str:
    """Say what is wrong with the lines on stderr: too long, or an error in data that names no field."""
    longest = max(map(len, told.err.splitlines()), default=0)
    if longest > (LONGEST_RECORD if told.is_json else LONGEST_LINE):
        return f"a line of {longest} characters"
    if told.code != 1 or not told.is_json:
        return ""
    last = told.err.rstrip("\n").rpartition("\n")[2]
    error = json.loads(last)["error"]
    return "" if error["kind"] != "DataError" or error.get("path") else f"an error without a field: {last[:300]}"


def _find_fault(told: Told, codes: frozenset[int], *, is_spoilt: bool = False) -> str:
    """Say what is wrong with what a command did; what is shown of spoilt input may look as bad as that."""
    fault = ""
    if told.code not in codes or "Traceback" in told.err:
        fault = f"ends with {told.code}"
    elif told.is_json and told.out:
        fault = _find_in_json(told.out)
    elif not is_spoilt and (found := _TRAILING.search(told.out)):
        fault = f"trailing blanks: {told.out[max(0, found.start() - 60) : found.end()]!r}"
    patterns = {"an object": _UNREADABLE["an object"]} if is_spoilt else _UNREADABLE
    fault = fault or _find_in_text(told.out + told.err, patterns) or _find_in_error(told)
    return f"optplan {' '.join(told.command)!r}: {fault}; {told.err[-600:]}" if fault else ""


def _find_page_fault(path: Path) -> str:
    """Say what is wrong with the text of an HTML page; nothing where nothing is."""
    text = _TAG.sub(" ", _SCRIPT.sub(" ", path.read_text(encoding="utf-8")))
    fault = _find_in_text(text)
    return f"{path.name}: {fault}" if fault else ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes ``cases`` the numbers of its cases, some at a time, so that workers share them.

    Its module says how many there are in `make test` (CASES) and which share of what `make fuzz` asks for (SHARE).
    """
    if "cases" not in metafunc.fixturenames:
        return
    module = metafunc.module
    first = int(os.environ.get("OPTPLAN_FUZZ_SEED", "1"))
    wanted = os.environ.get("OPTPLAN_FUZZ_CASES")
    count = module.CASES if wanted is None else max(1, int(int(wanted) * module.SHARE))
    numbers = range(first, first + count)
    chunks = [numbers[start : start + EACH] for start in range(0, count, EACH)]
    metafunc.parametrize("cases", chunks, ids=[str(chunk[0]) for chunk in chunks])


@pytest.fixture(scope="session")
def find_fault() -> FindFault:
    """Return what says what is wrong with what a command did; nothing where nothing is."""
    return _find_fault


@pytest.fixture(scope="session")
def find_page_fault() -> Callable[[Path], str]:
    """Return what says what is wrong with the text of an HTML page; nothing where nothing is."""
    return _find_page_fault
