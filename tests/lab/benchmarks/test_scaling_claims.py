"""The conclusions of Srift's section 3 on studies of a few points, worked out by hand."""

from __future__ import annotations

import pytest
from suites.srift import Finding, check_conclusions

from optplan.lab.scaling import ScalingMode, ScalingPoint, ScalingStudy


def study(mode: ScalingMode, *points: tuple[str, int, float, float]) -> ScalingStudy:
    """Make a study of points (type, VMs, samples a second, US dollars an hour) of VMs of one GPU, batches of 64."""
    made = [
        ScalingPoint(
            type=name,
            vms=vms,
            world=vms,
            batch_per_rank=64 // vms if mode is ScalingMode.STRONG else 64,
            global_batch=64 if mode is ScalingMode.STRONG else 64 * vms,
            forward_s=0.0,
            backward_s=0.0,
            exchange_s=0.0,
            iteration_s=64 / speed,
            samples_per_s=speed,
            usd_per_hour=usd,
            samples_per_usd=speed * 3600 / usd,
            relative_efficiency=1.0,
            usd_per_iteration=64 / speed * usd / 3600,
        )
        for name, vms, speed, usd in points
    ]
    return ScalingStudy(mode=mode, instance_name="x", instance_hash="x", network="x", points=tuple(made))


def finding(found: ScalingStudy, words: str) -> Finding:
    """Return the one finding about a conclusion."""
    (only,) = [one for one in check_conclusions(found) if words in one.claim]
    return only


def test_weak_scaling() -> None:
    """A fast GPU: 1,000 a second for $3.6; a slow one: 250 for $0.3. Two fast ones: 1,900 for $7.2, 5 % less for $1."""
    weak = study(ScalingMode.WEAK, ("fast", 1, 1000, 3.6), ("fast", 2, 1900, 7.2), ("slow", 1, 250, 0.3))
    assert finding(weak, "3.2").holds
    assert finding(weak, "3.2").said == (
        "1 fast has most samples a second (1,000), 1 slow most samples for a dollar (3,000,000)"
    )
    assert (finding(weak, "of fast falls").holds, finding(weak, "of fast falls").said) == (
        True,
        "2 fast reach 95% of that of 1 fast",
    )
    assert finding(weak, "of slow falls").holds is None  # there is one size
    assert finding(weak, "depends on the number").holds is None  # no two sizes that both types have


def test_a_rise_is_named_and_rounding_is_none() -> None:
    """500 for $1, then 1,200 for $2: more for a dollar. The same for a dollar is no rise."""
    assert finding(study(ScalingMode.WEAK, ("a", 1, 500, 1), ("a", 2, 1200, 2)), "falls").holds is False
    assert "it rises at 2 a" in finding(study(ScalingMode.WEAK, ("a", 1, 500, 1), ("a", 2, 1200, 2)), "falls").said
    assert finding(study(ScalingMode.WEAK, ("a", 1, 500, 1), ("a", 2, 1000, 2)), "falls").holds
    assert finding(study(ScalingMode.WEAK, ("a", 1, 500, 1)), "3.2").holds is None  # there is one type


@pytest.mark.parametrize(
    ("together", "holds", "said"), [(100, True, "1 cheap, 4 dear"), (1000, False, "1 cheap, 4 cheap")]
)
def test_the_best_type_may_depend_on_the_size(together: float, holds: bool, said: str) -> None:
    """Alone the cheap VM gives twice as much for a dollar; of four, 100 a second for $2, against 1,000 for $4."""
    points = (("cheap", 1, 250, 0.5), ("cheap", 4, together, 2), ("dear", 1, 250, 1), ("dear", 4, 1000, 4))
    found = finding(study(ScalingMode.WEAK, *points), "depends on the number")
    assert (found.holds, found.said) == (holds, f"best: {said}")


def test_strong_scaling() -> None:
    """1,000 a second for $1, or 1,500 for $2: 1.5 times as fast, and 64 samples cost 4/3; one size says nothing."""
    strong = study(ScalingMode.STRONG, ("a", 1, 1000, 1), ("a", 2, 1500, 2), ("b", 1, 10, 1))
    (found,) = check_conclusions(strong)
    assert (found.claim, found.holds) == ("3.4: no batch per GPU is both fastest and cheapest on a", True)
    assert found.said == (
        "throughput differs by a factor of 1.5, cost by 1.3; "
        "fastest are 2 a with 32 samples on each GPU, cheapest 1 a with 64"
    )
    assert not check_conclusions(study(ScalingMode.STRONG, ("a", 1, 1000, 1), ("a", 2, 4000, 2)))[0].holds
