"""``optplan doctor``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

import pytest

import optplan
from optplan.contracts.registry import SolverEntry
from optplan.errors import EngineError

if TYPE_CHECKING:
    from tests.conftest import Runner


@pytest.mark.slow
def test_all_that_is_installed_here_works(run: Runner) -> None:
    """Each engine solves, and is verified; packages have the version that is asked for beside the one that is here."""
    told = run("doctor", "--json")
    found = json.loads(told.out)
    assert (told.code, told.err) == (0, "")
    assert [each["solver"] for each in found["engines"]] == ["layered-paths", "highs", "cp-sat", "conic"]
    assert {each["state"] for each in found["engines"]} <= {"works", "missing"}
    assert found["engines"][0]["state"] == "works"
    assert found["here"]["optplan"] == optplan.__version__
    scipy = next(each for each in found["packages"] if each["package"] == "scipy")
    assert (scipy["extra"], scipy["needs"][:2]) == (None, ">=")
    assert not {"pytest", "mkdocs"} & {each["package"] for each in found["packages"]}


def test_an_engine_that_does_not_work_is_shown_with_its_error(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are tried all the same, and the exit code is 1."""

    def fail(*_: object, solver: str, **__: object) -> NoReturn:
        raise EngineError(f"{solver}:\nundefined symbol")

    monkeypatch.setattr(optplan, "solve", fail, raising=False)
    told = run("doctor", "--json")
    states = [each["state"] for each in json.loads(told.out)["engines"]]
    assert told.code == 1
    assert states[0] == "EngineError: layered-paths: undefined symbol"
    assert len(states) == 4


def test_what_is_missing_is_no_failure_and_says_how_to_get_it(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Extras are optional."""
    monkeypatch.setattr(SolverEntry, "available", lambda self: not self.needs)
    monkeypatch.setattr("optplan.cli.doctor.version", lambda _: "")
    monkeypatch.setattr("optplan.cli.doctor.shutil.which", lambda _: None)
    told = run("doctor")
    assert told.code == 0
    for part in ('ortools: pip install "optplan[cp-sat]"', 'missing: pip install "optplan[plot]"', "sbatch"):
        assert part in told.out
