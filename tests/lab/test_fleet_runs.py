"""``benchmarks/fleet_runs.py``: a fleet through losses, by hand where a trace says when, in the mean where drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleet_runs import FleetRuns, down_times, replay_fleet, sample_fleet

from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.laws.iteration import expect_training, interruption_rate_per_s
from optplan.instances.files import read_instance
from optplan.lab.spot.traces import SpotTrace, read_spot_trace

#: Two spot VMs and one that stays, each at 3.6 usd/h and 1 s for its sample: 0.003 usd/s together.
FLEET = SriftSolution(groups=(VmGroup(type="spot", count=2, batch=1), VmGroup(type="safe", count=1, batch=1)))


def make(*, billed: bool = True, rate: float = 0.0, iterations: int = 100, **fields: Any) -> SriftInstance:  # noqa: ANN401
    """Return a problem: an iteration takes a second, checkpoints of 1 s every 10 s, restarts of 5 s."""
    vm = {"gpu": "g", "price_usd_per_hour": 3.6, "network_gbit_per_s": 1e6}
    return SriftInstance.parse(
        {
            "formulation": "srift",
            "name": "three",
            "job": {
                "layers": {"gradient_bytes": [1.0], "ready": [0.0]},
                "devices": {"g": {"batches": [1], "forward_s": [0.25], "backward_s": [0.75], "deviation": 0}},
            },
            "bandwidth": {"form": "latency-bandwidth", "step_latency_s": 0},
            "global_batch": 3,
            "iterations": iterations,
            "types": {"spot": vm | {"spot": True, "interruptions_per_hour": rate}, "safe": vm},
            "interruptions": {
                "checkpoint_every_s": 10,
                "checkpoint_s": 1,
                "restart_s": 5,
                "restart_billed": billed,
            },
            **fields,
        }
    )


def trace_of(alive: list[int], tick_s: float = 1.0) -> SpotTrace:
    """Return a trace of two wanted VMs."""
    return SpotTrace("by-hand", tick_s, np.array(alive, dtype=np.int64), 2)


@pytest.fixture
def from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run begin with its trace."""

    class Stream:
        def uniform(self, low: float, _: float) -> float:
            return low

        def integers(self, high: int) -> int:
            return high - 1

    monkeypatch.setattr(np.random, "default_rng", lambda _: Stream())


def replay(instance: SriftInstance, alive: list[int]) -> FleetRuns:
    """Run the fleet through a trace once."""
    return replay_fleet(instance, FLEET, {"spot": trace_of(alive)}, samples=1)


@pytest.mark.usefixtures("from_the_start")
def test_a_loss_by_hand() -> None:
    """20 iterations: 20 s and one checkpoint after 10 s. At 15 s a VM is lost, at 18 s it is replaced.

    10 s and the checkpoint are saved, 4 s are lost. 18 s, restart until 23 s, and 10 s more: 33 s. The fleet is paid
    all the time, less 3 s of one VM: 0.003 * 33 - 0.001 * 3 = 0.096 usd.
    """
    runs = replay(make(iterations=20), [2] * 15 + [1] * 3 + [2] * 30)
    assert runs.time_s[0] == pytest.approx(33)
    assert runs.cost_usd[0] == pytest.approx(0.096)
    assert (runs.interruptions[0], runs.waited_s[0], runs.finished) == (1, 3.0, 1.0)
    assert (runs.share_within(33.1), runs.share_within(32.9)) == (1.0, 0.0)


@pytest.mark.usefixtures("from_the_start")
def test_a_fleet_that_is_given_back_is_paid_while_it_trains() -> None:
    """As before, but paid for 15 + 10 s only; what happens during the restart, from 18 to 23 s, is not its business."""
    alive = [2] * 15 + [1] * 3 + [2] * 2 + [0] * 2 + [2] * 30
    runs = replay(make(iterations=20, billed=False), alive)
    assert runs.time_s[0] == pytest.approx(33)
    assert runs.cost_usd[0] == pytest.approx(0.003 * 25)
    assert runs.interruptions[0] == 1


@pytest.mark.usefixtures("from_the_start")
def test_a_fleet_that_is_held_can_be_lost_during_its_restart() -> None:
    """From 20 to 22 s both are gone: the restart begins anew at 22 s, and the run ends at 22 + 5 + 10 s."""
    runs = replay(make(iterations=20), [2] * 15 + [1] * 3 + [2] * 2 + [0] * 2 + [2] * 30)
    assert runs.time_s[0] == pytest.approx(37)
    assert runs.cost_usd[0] == pytest.approx(0.003 * 37 - 0.001 * (3 + 2 * 2))
    assert (runs.interruptions[0], runs.waited_s[0]) == (2, 5.0)


@pytest.mark.usefixtures("from_the_start")
def test_vms_that_cannot_be_had_at_first_are_waited_for() -> None:
    """Launched for 2 s (not paid), one VM comes at 6 s: the run waits 4 s for it, paying two, and takes 21 s then."""
    runs = replay(make(iterations=20, launch_s=2), [1] * 6 + [2] * 40)
    assert runs.time_s[0] == pytest.approx(27)
    assert runs.waited_s[0] == pytest.approx(4)
    assert runs.cost_usd[0] == pytest.approx(0.003 * 25 - 0.001 * 4)
    paid = replay(make(iterations=20, launch_s=2, launch_billed=True), [1] * 6 + [2] * 40)
    assert paid.cost_usd[0] == pytest.approx(0.003 * 27 - 0.001 * 4)


@pytest.mark.usefixtures("from_the_start")
def test_a_run_that_outlives_its_trace_is_cut_off() -> None:
    """A trace of 20 s says nothing of a run that takes 21."""
    runs = replay(make(iterations=20), [2] * 20)
    assert math.isnan(runs.time_s[0])
    assert (runs.finished, runs.share_within(1e9)) == (0.0, 0.0)


@pytest.mark.parametrize("billed", [True, False])
def test_random_losses_agree_with_the_closed_form(billed: bool) -> None:
    """VMs lost at random and replaced at once: mean time, cost and interruptions within 4 standard errors."""
    instance = make(billed=billed, rate=40.0)
    measures = evaluate(instance, FLEET).measures
    assert instance.interruptions is not None
    rate_per_s = interruption_rate_per_s(instance, FLEET.groups)
    interrupted_s = float(expect_training(measures["work_s"], rate_per_s, instance.interruptions)[1])
    runs = sample_fleet(instance, FLEET, samples=3000, seed=11)
    for mean, drawn in (
        (measures["time_s"], runs.time_s),
        (measures["cost_usd"], runs.cost_usd),
        (rate_per_s * interrupted_s, runs.interruptions),
    ):
        assert abs(float(drawn.mean()) - mean) <= 4 * float(drawn.std()) / math.sqrt(drawn.size)
    assert runs.waited_s.max() == 0


@pytest.mark.parametrize(("on_demand", "spot"), [(1, 3), (0, 4), (4, 0)])
def test_expectations_of_the_library_are_met(on_demand: int, spot: int) -> None:
    """On demand, spot or both: the library's choice rests on means that runs of the same process have."""
    instance = read_instance("srift-spot-or-on-demand")
    assert isinstance(instance, SriftInstance)
    counts = {"on-demand": on_demand, "spot": spot}
    fleet = SriftSolution(groups=tuple(VmGroup(type=name, count=n, batch=128) for name, n in counts.items() if n))
    measures = evaluate(instance, fleet).measures
    runs = sample_fleet(instance, fleet, samples=2000, seed=3)
    for mean, drawn in ((measures["time_s"], runs.time_s), (measures["cost_usd"], runs.cost_usd)):
        error = float(drawn.std()) / math.sqrt(drawn.size)
        assert abs(float(drawn.mean()) - mean) <= 4 * error + 1e-9 * mean


def test_losses_of_a_real_zone_come_together(data_pack: Path) -> None:
    """As the docs say: four spot VMs take half the expected time in us-west-2c, because they are lost together."""
    instance = read_instance("srift-spot-or-on-demand")
    assert isinstance(instance, SriftInstance)
    assert instance.interruptions is not None
    path = data_pack / "spot-traces/preemption/4-node/aws-08-03-2023/us-west-2c_v100_1.json"
    fleet = SriftSolution(groups=(VmGroup(type="spot", count=4, batch=128),))
    quick = instance.replace(interruptions=instance.interruptions.replace(restart_s=180.0))
    runs = replay_fleet(quick, fleet, {"spot": read_spot_trace(path, wanted=4)}, samples=1000, seed=1)
    expected_s = evaluate(instance, fleet).measures["time_s"]
    assert 0.45 * expected_s < np.nanmean(runs.time_s) < 0.65 * expected_s
    assert runs.finished > 0.97


def test_waiting_for_replacements_takes_longer() -> None:
    """The closed form knows of no wait: with one of 20 s on average, runs are longer by about that each time."""
    instance = make(rate=20.0)
    at_once = sample_fleet(instance, FLEET, samples=400, seed=1)
    late = sample_fleet(instance, FLEET, samples=400, seed=1, replacement_s=20.0)
    assert late.time_s.mean() > at_once.time_s.mean() + 10
    per_outage_s = late.waited_s.sum() / late.interruptions.sum()
    assert 15 < per_outage_s < 27  # 20 s, a little more where a second VM is lost meanwhile


def test_a_fleet_that_nobody_takes_back_runs_through() -> None:
    """Without spot VMs every run takes the same."""
    alone = SriftSolution(groups=(VmGroup(type="safe", count=3, batch=1),))
    runs = sample_fleet(make(rate=40.0), alone, samples=3)
    assert set(runs.time_s) == {109.0}


def test_runs_belong_to_the_seed() -> None:
    """The same seed gives the same runs, through traces as well."""
    instance, trace = make(iterations=20), {"spot": trace_of(([2] * 30 + [1] * 5) * 40)}

    def draw_losses(seed: int) -> FleetRuns:
        return sample_fleet(make(rate=40.0), FLEET, samples=20, seed=seed)

    def draw_moments(seed: int) -> FleetRuns:
        return replay_fleet(instance, FLEET, trace, samples=20, seed=seed)

    for draw in (draw_losses, draw_moments):
        np.testing.assert_array_equal(draw(1).time_s, draw(1).time_s)
        assert not np.array_equal(draw(1).time_s, draw(2).time_s)


def test_calls_that_cannot_be_answered() -> None:
    """Traces of other types, too few VMs, no traces, no terms and wrong numbers are refused."""
    instance = make()
    three = SpotTrace("one-zone", 1.0, np.array([1, 1]), 1)
    for traces, message in (
        ({"spit": three}, r"traces: the fleet has no VM of type 'spit'; it has spot, safe"),
        ({"spot": three}, r"traces: one-zone tells of 1 VMs at a time, and the fleet has 2 spot"),
        ({}, r"traces: there are none; give one by type of VM, or use sample_fleet"),
    ):
        with pytest.raises(UsageError, match=message):
            replay_fleet(instance, FLEET, traces, samples=1)
    with pytest.raises(UsageError, match=r"samples: got 0; a number of at least 1 is needed"):
        sample_fleet(instance, FLEET, samples=0)
    with pytest.raises(UsageError, match=r"replacement_s: got -1; a number of at least 0 is needed"):
        sample_fleet(instance, FLEET, samples=1, replacement_s=-1)
    silent = instance.replace(interruptions=None)
    with pytest.raises(UsageError, match=r"interruptions: 'three' does not say what a loss does; give the field inter"):
        sample_fleet(silent, FLEET, samples=1)


def test_places_of_a_trace() -> None:
    """One VM is missing at first, one is lost at tick 2 and replaced at 3, two are lost at 4 and stay away."""
    trace = SpotTrace("zone", 10.0, np.array([2, 3, 2, 3, 1]), 3)
    places = down_times(trace, stream=np.random.default_rng(0))
    assert places[2][0] == (0.0, 10.0)  # the place that was empty is filled first
    missing = sorted(interval for place in places for interval in place)
    assert missing == [(0.0, 10.0), (20.0, 30.0), (40.0, 50.0), (40.0, 50.0)]
    hours = [trace.wanted - alive for alive in trace.alive.tolist()]
    assert sum(end - start for start, end in missing) == pytest.approx(10 * sum(hours))
