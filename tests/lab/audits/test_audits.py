"""Audits are checked without solvers: each bound from its price, counts and sizes from the jobs; forged ones fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import optplan
from optplan.errors import DataError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.instances.job_traces import JobTrace
from optplan.lab.audits.auditing import audit
from optplan.lab.audits.records import Audit
from optplan.speedup import AmdahlSpeedup, TableSpeedup
from optplan.verification import verify


def _make_instance(error: list[float] | None = None) -> BoaInstance:
    curve = TableSpeedup(gpus=[1, 2, 4], speedup=[1.0, 1.8, 2.8], error=error)
    return BoaInstance(
        classes={
            name: JobClass(
                arrival_rate_per_hour=1.0, epoch_size_gpu_hours=sizes, speedup={"t4": curve}, rescale_s=rescale_s
            )
            for name, sizes, rescale_s in (("a", [1.0, 2.0], 120.0), ("b", [0.5], 30.0))
        },
        gpu_types={"t4": {}},
    )


def _make_trace(*, said: bool = True) -> JobTrace:
    """Make four jobs of one class and three of another that waited, on 1 GPU; of the last nobody says anything."""
    known = np.array([1.0] * 6 + [np.nan]) if said else np.full(7, np.nan)
    return JobTrace(
        name="mine",
        classes=("a", "b"),
        class_index=np.array([0, 0, 1, 0, 1, 0, 1]),
        arrive_s=np.arange(7.0),
        size=np.array([1.0, 0.5, 1.0, 1.5, 2.0, 1.0, 1.0]),
        ids=np.array(list("tuvwxyz")),
        gpus=known,
        run_s=9360.0 * known,
        wait_s=200.0 * known,
        span_s=10.0,
        completed=np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
    )


INSTANCE, TRACE = _make_instance(), _make_trace()


@pytest.fixture(scope="module")
def sound() -> Audit:
    """Return an audit of the six jobs that are known."""
    return audit(INSTANCE, TRACE)


def test_what_was_had_is_what_the_trace_says(sound: Audit) -> None:
    """Six jobs held a GPU for 2.6 h and waited 200 s: 15.6 GPU-hours, 9560 s; the seventh is left out."""
    assert sound.num_jobs == 6
    assert sound.mean_jct_s == 9560.0
    assert sound.gpu_hours == pytest.approx(15.6)
    assert sound.lost_gpu_hours == pytest.approx(2.6)  # one of the six was not completed
    assert {name: (each.jobs, each.wait_s) for name, each in sound.classes.items()} == {
        "a": (4, 200.0),
        "b": (2, 200.0),
    }
    assert [each.gpu_hours for each in sound.classes.values()] == pytest.approx([10.4, 5.2])
    assert "1 more are left out" in sound.assumptions[0]
    assert [(each.of, each.pauses) for each in sound.bounds] == [
        ("mean_jct_s", True),
        ("gpu_hours", True),
        ("mean_jct_s", False),
        ("gpu_hours", False),
    ]


def test_gaps_of_the_classes_add_up(sound: Audit) -> None:
    """Waiting and running of all classes are the mean less the bound with pauses, and none is negative here."""
    bound = sound.bound("mean_jct_s", pauses=True)
    assert bound is not None
    assert sound.nearest is bound
    parts = [part for gap in sound.gaps().values() for part in gap]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(9560 - bound.bound)
    assert sum(gap.waiting_s for gap in sound.gaps().values()) == pytest.approx(200)


def test_a_sound_audit_holds(sound: Audit) -> None:
    """All checks hold; without the jobs their counts and sizes are on trust, and nothing is wrong."""
    assert verify(INSTANCE, sound, jobs=TRACE).ok
    without = verify(INSTANCE, sound)
    assert without.nothing_wrong
    assert without.on_trust == ("sizes: how many jobs of which size there were, and what was had; give the jobs",)


def _forge_bound(**changes: Callable[[Any], object]) -> Callable[[Audit], Audit]:
    def forge(sound: Audit) -> Audit:
        first, *rest = sound.bounds
        changed = {name: change(getattr(first, name)) for name, change in changes.items()}
        return sound.replace(bounds=(first.replace(**changed), *rest))

    return forge


def _forge_least(sound: Audit) -> Audit:
    """Raise the least of a class, and the bound with it."""
    first, *rest = sound.bounds
    raised = first.replace(bound=first.bound + 10.0, least={**first.least, "a": first.least["a"] + 10.0})
    return sound.replace(bounds=(raised, *rest))


def _forge_class(**changes: object) -> Callable[[Audit], Audit]:
    return lambda sound: sound.replace(classes={**sound.classes, "a": sound.classes["a"].replace(**changes)})


def _drop_class(sound: Audit) -> Audit:
    """Leave a class out everywhere."""
    bounds = tuple(each.replace(least={"a": each.least["a"]}) for each in sound.bounds)
    return sound.replace(bounds=bounds, classes={"a": sound.classes["a"]})


@pytest.mark.parametrize(
    ("forge", "family"),
    [
        pytest.param(_forge_bound(bound=lambda it: it * 1.0001), "bound", id="higher-bound"),
        pytest.param(_forge_bound(price=lambda it: it * 1.01), "least", id="other-price"),
        pytest.param(_forge_bound(price=lambda _: 0.0), "least", id="no-price"),
        pytest.param(_forge_bound(price=lambda _: 1e308), "bound", id="absurd-price"),
        pytest.param(_forge_bound(given=lambda it: it * 0.9, bound=lambda it: it), "given", id="fewer-hours"),
        pytest.param(_forge_bound(pauses=lambda _: False), "least", id="without-pauses"),
        pytest.param(_forge_bound(least=lambda it: {"a": it["a"]}), "class", id="class-not-in-bound"),
        pytest.param(_forge_least, "least", id="higher-least"),
        pytest.param(_drop_class, "jobs", id="dropped-class"),
        pytest.param(_forge_class(jobs=5), "jobs", id="changed-count"),
        pytest.param(_forge_class(sizes=[0.5, 1.0, 1.6]), "sizes", id="changed-size"),
        pytest.param(_forge_class(sizes=[0.5, 1.0, 1.4]), "sizes", id="too-small-for-a-job"),
        pytest.param(_forge_class(sizes=[1.0, 0.5, 1.5]), "sizes", id="sizes-not-in-order"),
        pytest.param(_forge_class(weights=[0.0, 1.0, 3.0]), "sizes", id="larger-jobs"),
        pytest.param(_forge_class(wait_s=0.0), "wait_s", id="no-waiting"),
        pytest.param(_forge_class(gpu_hours=1.0), "gpu_hours", id="fewer-hours-of-a-class"),
        pytest.param(lambda it: it.replace(lost_gpu_hours=0.0), "lost_gpu_hours", id="nothing-lost"),
        pytest.param(lambda it: it.replace(mean_jct_s=9999.0), "mean_jct_s", id="longer-mean"),
        pytest.param(lambda it: it.replace(favoured=("a",)), "favoured", id="favoured"),
        pytest.param(lambda it: it.replace(classes={}), "class", id="no-class"),
    ],
)
def test_a_forged_audit_is_refused(sound: Audit, forge: Callable[[Audit], Audit], family: str) -> None:
    """Whatever is changed, some check of that kind fails."""
    found = verify(INSTANCE, forge(sound), jobs=TRACE)
    assert family in {check.family for check in found.failures}


def test_speeds_within_bands_are_favoured_by_name() -> None:
    """Where speedups may be off, the audit names the classes, and one that is silent about it is refused."""
    instance = _make_instance(error=[0.0, 0.1, 0.1])
    found = audit(instance, TRACE)
    assert found.favoured == ("a", "b")
    assert found.bounds[0].bound < audit(INSTANCE, TRACE).bounds[0].bound
    silent = verify(instance, found.replace(favoured=()), jobs=TRACE)
    assert [check.family for check in silent.failures] == ["favoured"]


def test_many_sizes_are_checked_with_the_jobs() -> None:
    """Of 300 sizes the shares that stand for 64 are derived again, by another way."""
    rng = np.random.default_rng(3)
    trace = JobTrace(
        name="many",
        classes=("a", "b"),
        class_index=np.arange(300) % 2,
        arrive_s=np.arange(300.0),
        size=rng.lognormal(0.0, 1.0, 300),
        ids=np.arange(300).astype(str),
        gpus=np.ones(300),
        run_s=rng.uniform(3600.0, 7200.0, 300) * 4,
        wait_s=np.zeros(300),
        span_s=300.0,
    )
    found = audit(INSTANCE, trace)
    assert verify(INSTANCE, found, jobs=trace).ok
    own = found.classes["a"]
    assert 40 < own.sizes.size <= 64
    moved = own.replace(weights=np.roll(own.weights, 1))
    forged = verify(INSTANCE, found.replace(classes={**found.classes, "a": moved}), jobs=trace)
    assert "sizes" in {check.family for check in forged.failures}


def test_time_that_is_over_leaves_bounds_on_trust(sound: Audit) -> None:
    """With no time nothing is derived, and that is said."""
    found = verify(INSTANCE, sound, jobs=TRACE, time_limit_s=0.0)
    assert found.nothing_wrong
    assert found.on_trust == ("bound: 1 and later not checked within 0 s",)


def test_what_was_had_may_be_given() -> None:
    """Given hours, or a mean, all jobs count; where the one is less than jobs need, the other bound says so."""
    silent = _make_trace(said=False)
    assert audit(INSTANCE, silent, gpu_hours=20.0).num_jobs == 7
    (with_pauses, without) = audit(INSTANCE, silent, gpu_hours=1.0).bounds
    assert (with_pauses.of, with_pauses.price) == ("gpu_hours", 0.0)
    assert with_pauses.bound > without.bound > 1.0
    assert {each.of for each in audit(INSTANCE, silent, mean_jct_s=1.0).bounds} == {"mean_jct_s"}
    assert not audit(INSTANCE, silent, gpu_hours=20.0).gaps()


def test_wrong_questions_are_refused(sound: Audit) -> None:
    """What was had has to be known, and trace and audit to be of the instance."""
    with pytest.raises(UsageError, match=r"says of no job its GPUs.*--gpu-hours"):
        audit(INSTANCE, _make_trace(said=False))
    with pytest.raises(UsageError, match="gpu_hours: got -1"):
        audit(INSTANCE, TRACE, gpu_hours=-1.0)
    other = INSTANCE.replace(classes={"c": INSTANCE.classes["a"], "b": INSTANCE.classes["b"]})
    with pytest.raises(UsageError, match="'mine' is not of the instance"):
        audit(other, TRACE)
    with pytest.raises(UsageError, match="the audit was made for"):
        verify(other, sound)
    with pytest.raises(DataError, match="2 sizes and 1 weights"):
        sound.classes["a"].replace(sizes=[1.0, 2.0], weights=[1.0])
    with pytest.raises(DataError, match="at least 0"):
        sound.classes["a"].replace(sizes=[-1.0], weights=[1.0])


@pytest.mark.parametrize("name", ["boa-newtrace-type-changes", "boa-gavel", "boa-newtrace-whole-nodes", "formula"])
def test_audits_of_every_kind_of_instance_hold(name: str) -> None:
    """Several GPU types with changes that cost, whole nodes, and a formula: solver and judge agree on every bound."""
    if name == "formula":
        own = JobClass(
            arrival_rate_per_hour=1.0,
            epoch_size_gpu_hours=[2.0],
            speedup={"t4": AmdahlSpeedup(serial_fraction=0.1, evidence="assumed", error=0.1)},
            widths=Widths(max=16),
        )
        instance = BoaInstance(classes={"a": own}, gpu_types={"t4": {}}, problem="continuous")
    else:
        instance = optplan.read_instance(name, BoaInstance)
    trace = optplan.draw_trace(instance, jobs=30, seed=2)
    least = audit(instance, trace, gpu_hours=1e-3).bounds[0]
    assert least.of == "gpu_hours"
    found = audit(instance, trace, gpu_hours=1.5 * least.bound, mean_jct_s=1e6)
    assert optplan.verify(instance, found, jobs=trace).ok
    hours = found.bound("gpu_hours", pauses=least.pauses)
    assert hours is not None
    assert hours.bound == pytest.approx(least.bound)
