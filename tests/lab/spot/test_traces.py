"""Traces of spot VMs: what is read, what is estimated from it, and how wrong files are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError, UsageError
from optplan.formulations.srift.data.instance import Interruptions, SriftInstance
from optplan.lab.spot.traces import (
    SpotTrace,
    estimate_spot,
    read_spot_trace,
    set_interruptions,
)

WriteTrace = Callable[..., Path]


@pytest.fixture
def write_trace(tmp_path: Path) -> WriteTrace:
    """Return a writer of trace files; by default the ticks are 15 minutes apart."""

    def write(alive: object, gap: object = 900, **fields: object) -> Path:
        path = tmp_path / "zone_v100_1.json"
        path.write_text(json.dumps({"metadata": {"gap_seconds": gap}, "data": alive, **fields}), encoding="utf-8")
        return path

    return write


@pytest.fixture
def instance() -> SriftInstance:
    """Return a problem with a spot and an on-demand type."""
    vm = {"gpu": "g", "price_usd_per_hour": 1.0, "network_gbit_per_s": 8}
    return SriftInstance.parse(
        {
            "formulation": "srift",
            "name": "two-forms",
            "job": {
                "layers": {"gradient_bytes": [1.0], "ready": [1.0]},
                "devices": {"g": {"batches": [1], "forward_s": [1.0], "backward_s": [1.0]}},
            },
            "global_batch": 1,
            "iterations": 1,
            "types": {"spot": vm | {"spot": True}, "safe": vm},
        }
    )


def test_a_trace_by_hand(write_trace: WriteTrace) -> None:
    """Of 2 + 2 + 1 + 2 + 2 VMs at risk for 15 minutes, 1 + 1 are lost: p = 2/9, rate -ln(7/9) * 4 an hour.

    6 ticks of 2 wanted VMs are 12, of which 10 were had: availability 10/12; 2 VM-ticks were missing for 2 losses.
    """
    trace = read_spot_trace(write_trace([2, 2, 1, 2, 2, 1], prices=[1]))
    assert (trace.name, trace.tick_s, trace.wanted, trace.duration_s) == ("zone_v100_1", 900.0, 2, 5400.0)
    estimate = estimate_spot(trace)
    assert estimate.interruptions_per_hour == pytest.approx(-4 * math.log(7 / 9))
    assert (estimate.losses, estimate.events, estimate.vm_hours) == (2, 2, 2.5)
    assert estimate.availability == pytest.approx(10 / 12)
    assert estimate.replacement_s == pytest.approx(900.0)
    assert estimate.low < estimate.interruptions_per_hour < estimate.high


def test_the_interval_is_garwoods_where_losses_come_one_by_one(write_trace: WriteTrace) -> None:
    """3 losses in 1000 VM-ticks: a Poisson mean from 0.6187 to 8.7673 (Garwood 1936)."""
    alive = [1] * 1003
    alive[100] = alive[500] = alive[900] = 0
    estimate = estimate_spot(read_spot_trace(write_trace(alive, gap=3600)))
    assert estimate.losses == 3
    at_risk = sum(alive[:-1])
    assert estimate.low == pytest.approx(-math.log1p(-0.6187 / at_risk), rel=1e-4)
    assert estimate.high == pytest.approx(-math.log1p(-8.7673 / at_risk), rel=1e-4)


def test_losses_together_say_less(write_trace: WriteTrace) -> None:
    """Four VMs lost at once are one event: the interval is wider than with four losses one by one, the rate alike."""
    together = estimate_spot(read_spot_trace(write_trace([4] * 50 + [0] + [4] * 50)))
    alone = [4] * 101
    alone[20] = alone[40] = alone[60] = alone[80] = 3
    one_by_one = estimate_spot(read_spot_trace(write_trace(alone)))
    assert (together.losses, together.events) == (4, 1)
    assert together.events_per_vm_hour == pytest.approx(together.interruptions_per_hour / 4)
    assert one_by_one.events_per_vm_hour == one_by_one.interruptions_per_hour
    assert together.interruptions_per_hour == pytest.approx(one_by_one.interruptions_per_hour, rel=0.02)
    assert together.high > 1.5 * one_by_one.high
    assert together.low < one_by_one.low


def test_no_loss_gives_an_upper_end(write_trace: WriteTrace) -> None:
    """Nothing lost in 100 VM-hours: rate 0, at most 3.69 / 100 an hour with 97.5 %, and no replacement is known."""
    estimate = estimate_spot(read_spot_trace(write_trace([1] * 101, gap=3600)))
    assert (estimate.interruptions_per_hour, estimate.low, estimate.replacement_s) == (0.0, 0.0, None)
    assert estimate.high == pytest.approx(-math.log1p(-math.log(40) / 100))


def test_where_all_are_lost_at_every_tick_the_rate_has_no_end(write_trace: WriteTrace) -> None:
    """VMs that never live for a tick have no finite rate."""
    assert estimate_spot(read_spot_trace(write_trace([1, 0, 1, 0]))).interruptions_per_hour == math.inf


def test_wanted_may_be_more_than_was_ever_had(write_trace: WriteTrace) -> None:
    """Availability is of what was wanted."""
    path = write_trace([1, 1, 1, 1])
    assert estimate_spot(read_spot_trace(path, wanted=4)).availability == 0.25
    with pytest.raises(UsageError, match=r"wanted: got 1, but zone_v100_1\.json has 2 VMs at a time; leave it out"):
        read_spot_trace(write_trace([2, 2]), wanted=1)


def test_rates_are_filled_in(write_trace: WriteTrace, instance: SriftInstance) -> None:
    """The spot type gets the rate, and the instance what a loss does, which it keeps if it has it."""
    estimate = estimate_spot(read_spot_trace(write_trace([2, 2, 1, 2, 2, 1])))
    terms = Interruptions(checkpoint_every_s=600, restart_s=180)
    filled = set_interruptions(instance, {"spot": estimate.interruptions_per_hour}, interruptions=terms)
    assert filled.types["spot"].interruptions_per_hour == estimate.interruptions_per_hour
    assert filled.types["safe"].interruptions_per_hour == 0
    assert filled.interruptions == terms
    assert set_interruptions(filled, {"spot": estimate.interruptions_per_hour}).interruptions == terms


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("spt", r"type: no type of VM 'spt'; did you mean 'spot'\?"),
        ("safe", r"type: 'safe' is no spot VM, and is not interrupted; set types\.safe\.spot first"),
        (
            "spot",
            r"interruptions: 'two-forms' does not say what a loss does; give the time between checkpoints, and of a",
        ),
    ],
)
def test_types_that_cannot_have_a_rate(
    write_trace: WriteTrace, instance: SriftInstance, name: str, message: str
) -> None:
    """Unknown types, types that stay, and instances that do not say what a loss does are refused."""
    estimate = estimate_spot(read_spot_trace(write_trace([2, 2, 1])))
    with pytest.raises(UsageError, match=message):
        set_interruptions(instance, {name: estimate.interruptions_per_hour})


@pytest.mark.parametrize("rate", [0.0, math.inf])
def test_an_endless_rate_is_refused_as_data(instance: SriftInstance, rate: float) -> None:
    """A rate of zero goes in; an infinite one is no number for an instance."""
    estimate = estimate_spot(SpotTrace("t", 1.0, np.array([1, 0, 1] if rate else [1, 1, 1]), 1))
    terms = Interruptions(checkpoint_every_s=600, restart_s=180)
    if rate:
        with pytest.raises(DataError, match=r"interruptions_per_hour: "):
            set_interruptions(instance, {"spot": estimate.interruptions_per_hour}, interruptions=terms)
    else:
        assert (
            set_interruptions(instance, {"spot": estimate.interruptions_per_hour}, interruptions=terms)
            .types["spot"]
            .spot
        )


@pytest.mark.parametrize(
    ("alive", "gap", "message"),
    [
        ([1, 1], None, r"metadata\.gap_seconds is None; seconds above zero are needed; give the time from one tick"),
        ([1, 1], 0, r"metadata\.gap_seconds is 0; "),
        ([1, 1], "5", r"metadata\.gap_seconds is '5'; "),
        ([1], 5, r"data has fewer than two ticks; list the VMs alive at each tick"),
        ({"0": 1}, 5, r"data has fewer than two ticks"),
        ([1, -1], 5, r"data\[1\] is -1; a number of VMs, from 0 to 1,000,000, is needed; correct it"),
        ([1, 1.5], 5, r"data\[1\] is 1\.5; "),
        ([True, 1], 5, r"data\[0\] is True; "),
    ],
)
def test_files_that_are_no_traces(write_trace: WriteTrace, alive: object, gap: object, message: str) -> None:
    """What is wrong in a file is named with its place."""
    with pytest.raises(DataError, match=message):
        read_spot_trace(write_trace(alive, gap))


def test_other_files_are_refused(tmp_path: Path) -> None:
    """No file, no JSON and no object are told apart."""
    with pytest.raises(DataError, match=r"missing\.json: no such file"):
        read_spot_trace(tmp_path / "missing.json")
    path = tmp_path / "list.json"
    path.write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(DataError, match=r"is not an object with the fields metadata and data; give a trace file"):
        read_spot_trace(path)
    path.write_text('{"metadata": 3, "data": [1, 1]}', encoding="utf-8")
    with pytest.raises(DataError, match=r"metadata\.gap_seconds is None"):
        read_spot_trace(path)


def test_a_trace_without_vms_has_no_rate(write_trace: WriteTrace) -> None:
    """Nothing was ever held."""
    with pytest.raises(DataError, match=r"zone_v100_1: no VM was ever alive; a rate needs a trace of VMs that were"):
        estimate_spot(read_spot_trace(write_trace([0, 0, 0])))


@pytest.mark.parametrize(
    ("path", "wanted", "rate", "losses", "hours"),
    [
        ("preemption/4-node/aws-08-03-2023/us-west-2c_v100_1.json", 4, 0.239, 330, 0.95),
        ("preemption/4-node/aws-08-03-2023/us-east-2a_v100_1.json", 4, 0.060, 75, 6.14),
        ("preemption/1-node/aws-04-22-2023/us-east-1c_v100_1.json", 1, 0.738, 41, 2.97),
    ],
)
def test_estimates_of_the_public_traces(
    data_pack: Path, path: str, wanted: int, rate: float, losses: int, hours: float
) -> None:
    """The figures that the docs give."""
    estimate = estimate_spot(read_spot_trace(data_pack / "spot-traces" / path, wanted=wanted))
    assert estimate.interruptions_per_hour == pytest.approx(rate, abs=5e-4)
    assert estimate.losses == losses
    assert estimate.replacement_s is not None
    assert estimate.replacement_s / 3600 == pytest.approx(hours, abs=0.005)
