"""Certificates that would keep the judge busy without end: processor time and memory stay within what is stated."""

from __future__ import annotations

import json
import re
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optplan.contracts import Certificate, Instance, Result, Solution, TreeCertificate
from optplan.errors import DataError, UsageError
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.instances.files import read_instance, read_result
from optplan.instances.library import build_named
from optplan.solving import solve
from optplan.verification import verify, verify_capped

if TYPE_CHECKING:
    from tests.verification.conftest import Measure

CASES = Path(__file__).parents[1] / "cases"
STATUS = Path("/proc/self/status")

#: Seconds of processor time that the judge is given, and that it may take beyond: a pass of best paths, and whatever
#: else is checked before; and megabytes.
LIMIT_S, MORE_S, MOST_MB = 1.0, 2.5, 1024.0


def claim(instance: Instance, *certificates: Certificate) -> Result[Solution]:
    """Return a result of an instance, with certificates in place of its own."""
    return solve(instance, check=False, certify=False).replace(certificates=certificates)


def boa(**changes: Any) -> Any:  # noqa: ANN401 - a BoaInstance
    """Return newTrace on three GPU types with two quotas, plans pure."""
    return build_named("boa-newtrace-quotas").replace(**{"policy": "pure"} | changes)


def divide(instance: Any, parts: int) -> Any:  # noqa: ANN401 - a BoaInstance, and what stands in a certificate
    """Return a division of which the first side is divided again and again; parts try in vain to close options."""
    first = next(iter(instance.classes))
    epochs, options = instance.classes[first].num_epochs, len(instance.options(first).labels)
    divisions = [entry for number in range(parts) for entry in (2, 0, number % epochs, 0, options)]
    return {"weights": [[1.0] * (1 + len(instance.limits))], "tree": divisions + [*[1, 0] * 8, 0, 0] * (parts + 1)}


def test_the_limit_counts_work_and_not_the_time_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with other things to do an hour may pass between two steps: what holds is called so all the same."""
    instance = boa()
    result = solve(instance)
    hours = iter(range(1_000_000))
    monkeypatch.setattr(time, "perf_counter", lambda: 3600.0 * next(hours))
    assert verify(instance, result, time_limit_s=60.0).ok


def test_a_chain_of_divisions_is_walked_once(measure: Measure) -> None:
    """9,000 of them end at the limit, and what is kept does not grow with the square of their number."""
    instance = boa()
    result = claim(instance, TreeCertificate(rule="boa-runs", bound=1e-3, content=divide(instance, 9_000)))
    with measure() as taken:
        verification = verify(instance, result, time_limit_s=LIMIT_S)
    assert "certificate tree[1]: not checked within 1 s of processor time" in verification.on_trust
    assert taken.seconds < LIMIT_S + MORE_S
    assert taken.megabytes < MOST_MB / 4


def test_what_a_walk_takes_is_proportional_to_the_parts(measure: Measure) -> None:
    """Four times as many divisions, each within the one before, take about four times as long; not sixteen."""
    instance = build_named("boa-two-classes").replace(policy="pure")
    seconds = []
    for parts in (2_000, 8_000):
        content = divide(instance, parts)
        result = claim(instance, TreeCertificate(rule="boa-runs", bound=1e-3, content=content))
        with measure() as taken:
            verify(instance, result, time_limit_s=None)
        seconds.append(taken.seconds)
    assert seconds[1] < 8.0 * seconds[0]


@pytest.mark.parametrize("width", ["1e-05", "1e-300"])
def test_widths_below_one_are_no_conditions(measure: Measure, width: str) -> None:
    """Tables of as many jobs as such widths leave room for would fill any memory: 14 GPUs are 1.4 million of 1e-5."""
    instance = read_instance(CASES / f"peak-width-{width}.instance.json")
    result = read_result(CASES / f"peak-width-{width}.result.json")
    with measure() as taken:
        verification = verify(instance, result)
    said = f"conditions.0.width: got {float(width)!r}; jobs hold 1 GPU at least, so a width is 1 or more"
    assert any(said in check.message for check in verification.failures)
    assert taken.seconds < MORE_S
    assert taken.megabytes < MOST_MB / 4


def chain(parts: int) -> tuple[Instance, Result[Solution]]:
    """Return an instance, and a result whose certificate is a chain of divisions."""
    instance = boa()
    return instance, claim(instance, TreeCertificate(rule="boa-runs", bound=1e-3, content=divide(instance, parts)))


@pytest.mark.parametrize("large", [0, 10**9])
def test_within_caps_the_judge_says_the_same(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process or in one of its own: what holds, what fails, and what belongs to another instance."""
    instance = boa()
    terms: dict[str, Any] = {"gap": 1e-6, "as_given": True, "time_limit_s": 60.0}
    monkeypatch.setattr("optplan.verification.capped.LARGE", large)
    result = solve(instance)
    for each in (result, result.replace(objective=1.0, bound=None, bound_proof="none", status="feasible")):
        capped, free = verify_capped(instance, each, **terms), verify(instance, each)
        assert capped.replace(seconds=0.0) == free.replace(seconds=0.0)
    with pytest.raises(UsageError, match="the result was made for boa instance"):
        verify_capped(build_named("boa-two-classes"), result, **terms)


@pytest.mark.skipif(not STATUS.exists(), reason="the system has no caps of memory that can be set beyond what is used")
def test_a_judge_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 2 s of processor time where its stopwatch says 60: what it found by then holds, and the rest is on trust."""
    instance, result = chain(9_000)
    terms: dict[str, Any] = {"gap": 1e-6, "as_given": True, "time_limit_s": 60.0}
    monkeypatch.setattr("optplan.verification.capped.PATIENCE_S", -58.0)
    ended = verify_capped(instance, result, **terms)
    families = {check.family for check in ended.checks}
    assert {"objective", "budget", "quota.a100"} <= families
    assert "certificate" not in families
    said = "bound: not checked within 2 s of processor time and 1 GiB of memory, where the judge was ended"
    assert any(text.startswith(said) for text in ended.on_trust)
    assert not ended.ok
    assert not ended.proven


@pytest.mark.skipif(not STATUS.exists(), reason="the system has no caps of memory that can be set beyond what is used")
def test_without_memory_nothing_is_called_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not even the decisions can be evaluated, that is what fails: of 400 classes, within what a process has."""
    one: Any = build_named("boa-two-classes")
    classes = {f"{name}-{copy}": each for copy in range(200) for name, each in one.classes.items()}
    instance = one.replace(classes=classes, budget="3200gpu", policy="pure")
    result = solve(instance, check=False, certify=False, gap=0.5)
    monkeypatch.setattr("optplan.verification.capped.LARGE", 0)
    monkeypatch.setattr("optplan.verification.capped.MOST_BYTES", 0)
    ended = verify_capped(instance, result, gap=1e-6, as_given=True, time_limit_s=60.0)
    (check,) = ended.checks
    assert "could not be computed within 70 s of processor time and 0 GiB of memory" in check.message
    assert not ended.nothing_wrong


def ask_for_too_much(*_: object) -> None:
    """Stand for whatever asks the system for more than it gives."""
    np.empty(1 << 28)


@pytest.mark.skipif(not STATUS.exists(), reason="the system has no caps of memory that can be set beyond what is used")
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("formulations.boa.judge.trees.check_tree", "certificate tree[1]: not checked within the memory there is"),
        ("verification.bounds.BoundJudge.check_bound", "bound: not checked within 70 s of processor time and 1 GiB of"),
        ("verification.judge._check_solution", "what the decisions amount to could not be computed within 70 s of"),
    ],
)
def test_two_gibibytes_are_not_given(monkeypatch: pytest.MonkeyPatch, where: str, said: str) -> None:
    """Whatever asks for them is named, what else there is holds, and the caps are gone afterwards."""
    monkeypatch.setattr(f"optplan.{where}", ask_for_too_much)
    instance, result = chain(10)
    before = resource.getrlimit(resource.RLIMIT_AS)
    capped = verify_capped(instance, result, gap=1e-6, as_given=True, time_limit_s=60.0)
    assert said in " ".join([*capped.on_trust, *(check.message for check in capped.failures)])
    assert not capped.proven
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(
    ("where", "place"),
    [
        (("certificates", 0), "certificates.0.content"),
        (("infeasibility", "certificate"), "infeasibility.certificate.content"),
        (("infeasibility", "relaxations", 1), "infeasibility.relaxations.1.certificate.content"),
        (("infeasibility", "hopeless", 0), "infeasibility.hopeless.0.certificate.content"),
    ],
)
def test_certificates_of_more_than_a_megabyte_are_refused_on_reading(
    tmp_path: Path, where: tuple[str | int, ...], place: str
) -> None:
    """Wherever they stand, with their place, their size and what is allowed, before anything is made of them."""
    certificate = {"form": "tree", "rule": "boa-runs", "bound": 1.0, "content": {"rows": [[1, 1]] * 200_000}}
    held: Any = (
        certificate if where[0] == "certificates" or where[-1] == "certificate" else {"certificate": certificate}
    )
    for key in reversed(where):
        held = {key: held} if isinstance(key, str) else [{}] * key + [held]
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"formulation": "boa", "instance_hash": "x", "termination": "completed", **held}))
    said = f"large.json: {place}: has 1,600,010 characters; up to 1,048,576 are read"
    with pytest.raises(DataError, match=re.escape(said)):
        read_result(path)


def test_results_of_more_than_ten_megabytes_are_refused_on_reading(tmp_path: Path) -> None:
    """Lists of nothing take a hundred times the memory of what is read."""
    path = tmp_path / "large.json"
    path.write_text("[" + "[]," * 4_000_000 + "[]]")
    with pytest.raises(DataError, match="is larger than 10,000,000 bytes"):
        read_result(path)


def test_a_result_has_a_hundred_certificates_at_most() -> None:
    """Each is checked: two thousand that all hold kept the judge busy for 50 s."""
    result = solve(read_instance("boa-two-classes"))
    data = result.to_json_data()
    many = 101 * data["certificates"][:1]
    assert type(result).parse(data | {"certificates": many[:100]}).bound == result.bound
    with pytest.raises(DataError, match=r"^certificates: .*at most 100 items"):
        type(result).parse(data | {"certificates": many})


def test_a_limit_that_is_named_twice_is_checked_once() -> None:
    """It has failed already, and each would take as long as the first."""
    result = solve(read_instance("boa-two-classes").replace(budget="1gpu"))
    claim = result.infeasibility
    assert claim is not None
    twice = result.replace(infeasibility=claim.replace(relaxations=3 * claim.relaxations))
    checks = verify(read_instance("boa-two-classes").replace(budget="1gpu"), twice)
    assert not checks.nothing_wrong
    assert "name it once" in str(checks)


def test_bounds_from_multipliers_look_at_the_clock() -> None:
    """A million trials have as many ways to run as it has divisors and more: not all are looked at within 20 ms."""
    data = read_instance("rubberband-two-stages").to_json_data()
    data["cloud"]["minimum_charge_s"] = 60.0
    data["cloud"]["most_instances"], data["deadline_s"] = 4_000, 1e9
    data["experiment"]["stages"][0]["trials"] = 1_000_000
    instance = RubberBandInstance.parse(data)
    result = solve(instance, check=False)
    assert [certificate.form for certificate in result.certificates] == ["lagrangian"]
    before = time.thread_time()
    verification = verify(instance, result, time_limit_s=0.02)
    assert time.thread_time() - before < LIMIT_S + MORE_S
    assert verification.nothing_wrong
    assert not verification.ok
