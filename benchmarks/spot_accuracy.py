"""Hold expectations under lost spot VMs against real traces, and write the docs' tables.

Needs the public data, and the library's ``srift-spot-or-on-demand``::

    python benchmarks/spot_accuracy.py --data ../shared/data > docs/assets/srift-spot.md
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from fleet_runs import FleetRuns, follow_runs, replay_fleet, sample_fleet

from optplan.formulations.srift.data.instance import Interruptions, SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.laws.iteration import expect_training, interruption_rate_per_s
from optplan.instances.files import read_instance
from optplan.lab.spot.traces import SpotEstimate, SpotTrace, estimate_spot, read_spot_trace
from optplan.units import SECONDS_PER_HOUR

FOLDER = "spot-traces"
#: By kind of trace, the folders with a number of VMs that were wanted all the time.
KINDS = {
    "preemption/1-node/aws-04-22-2023": 1,
    "preemption/4-node/aws-08-03-2023": 4,
    "availability/16-node/aws-08-27-2023": 16,
}
#: Traces that fleets are sent through.
REPLAYED = tuple(f"preemption/4-node/aws-08-03-2023/{zone}_v100_1.json" for zone in ("us-west-2c", "us-east-2a"))
#: Fleets of four VMs with 128 samples each: on demand, spot.
FLEETS = ((3, 1), (2, 2), (1, 3), (0, 4))
#: From the moment that all VMs are there until training goes on.
RESTART_S = 180.0
SAMPLES, SEED = 4000, 1
#: Training whose samples are compared with the closed form.
WORK_S = 4 * SECONDS_PER_HOUR


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    folder = parser.parse_args().data / FOLDER
    instance = read_instance("srift-spot-or-on-demand")
    assert isinstance(instance, SriftInstance)
    assert instance.interruptions is not None
    write_section("sampling", list_samples(instance.interruptions))
    write_section("estimates", list_estimates(folder))
    for name in REPLAYED:
        trace = read_spot_trace(folder / name, wanted=4)
        write_section(trace.name.partition("_")[0], list_fleets(instance, trace))


def write_section(name: str, lines: Iterator[str]) -> None:
    """Print lines between the marks by which a page includes them."""
    print("\n".join([f"<!-- --8<-- [start:{name}] -->", *lines, f"<!-- --8<-- [end:{name}] -->"]))


def list_samples(terms: Interruptions) -> Iterator[str]:
    """Write the closed form beside samples of its process as rows of a table."""
    yield "| interrupted | restarts | expected time | sampled | standard error | expected interruptions | sampled |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for row, per_hour in enumerate((0.1, 0.5, 1.0, 2.0)):
        for billed in (True, False):
            asked = terms.replace(restart_billed=billed, restart_s=600.0)
            rate_per_s = per_hour / SECONDS_PER_HOUR
            expected_s, exposed_s = map(float, expect_training(WORK_S, rate_per_s, asked))
            seed = 2 * row + billed
            total_s, _, interruptions = follow_runs(WORK_S, rate_per_s, asked, samples=100_000, seed=seed)
            error_s = float(total_s.std()) / math.sqrt(total_s.size)
            yield (
                f"| {per_hour:g} times an hour | {'paid' if billed else 'not paid'} "
                f"| {expected_s:,.1f} s | {total_s.mean():,.1f} s | {error_s:.1f} s "
                f"| {rate_per_s * exposed_s:.4f} | {interruptions.mean():.4f} |"
            )


def list_estimates(folder: Path) -> Iterator[str]:
    """Write what each trace says as rows of a table."""
    yield "| traces of | zone | VMs wanted | lost | at moments | interruptions an hour | until replaced | available |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for kind, wanted in KINDS.items():
        for path in sorted((folder / kind).glob("*_v100_1.json")):
            found = estimate_spot(read_spot_trace(path, wanted=wanted))
            assert found.replacement_s is not None
            yield (
                f"| {kind.partition('/')[0]} | {path.stem.partition('_')[0]} | {wanted} "
                f"| {found.losses:,} | {found.events:,} "
                f"| {found.interruptions_per_hour:.2f} ({found.low:.2f} to {found.high:.2f}) "
                f"| {found.replacement_s / SECONDS_PER_HOUR:.1f} h | {found.availability:.0%} |"
            )


def list_fleets(instance: SriftInstance, trace: SpotTrace) -> Iterator[str]:
    """Write how fleets do in expectation and in the trace as rows of a table."""
    found = estimate_spot(trace)
    yield f"| {trace.name.partition('_')[0]} | interruptions | mean time | median | cost | within 10 h |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for on_demand, spot in FLEETS:
        fleet = make_fleet(on_demand, spot)
        yield f"| **{on_demand} on demand, {spot} spot** | | | | | |"
        for label, rate in (("VM by VM", found.interruptions_per_hour), ("by moments", found.events_per_vm_hour)):
            yield write_expectation(f"closed form, {label}", put_in(instance, found, rate), fleet)
        training = put_in(instance, found, found.interruptions_per_hour, restart_s=RESTART_S)
        assert found.replacement_s is not None
        drawn = sample_fleet(training, fleet, samples=SAMPLES, seed=SEED, replacement_s=found.replacement_s)
        yield write_runs("sampled, replaced one by one", drawn)
        yield write_runs("the trace", replay_fleet(training, fleet, {"spot": trace}, samples=SAMPLES, seed=SEED))


def make_fleet(on_demand: int, spot: int) -> SriftSolution:
    """Return a fleet."""
    counts = {"on-demand": on_demand, "spot": spot}
    return SriftSolution(groups=tuple(VmGroup(type=name, count=n, batch=128) for name, n in counts.items() if n))


def put_in(
    instance: SriftInstance, found: SpotEstimate, rate: float, *, restart_s: float | None = None
) -> SriftInstance:
    """Return the instance with a trace's rate; a restart takes as long as replacing a VM did, and then to start."""
    assert instance.interruptions is not None
    assert found.replacement_s is not None
    until_s = found.replacement_s + RESTART_S if restart_s is None else restart_s
    spot = instance.types["spot"].replace(interruptions_per_hour=rate)
    terms = instance.interruptions.replace(restart_s=until_s)
    return instance.replace(types={**instance.types, "spot": spot}, interruptions=terms)


def write_expectation(label: str, instance: SriftInstance, fleet: SriftSolution) -> str:
    """Write what is expected of a fleet as a row."""
    measures = evaluate(instance, fleet).measures
    assert instance.interruptions is not None
    rate_per_s = interruption_rate_per_s(instance, fleet.groups)
    count = rate_per_s * float(expect_training(measures["work_s"], rate_per_s, instance.interruptions)[1])
    return (
        f"| {label} | {count:.1f} | {measures['time_s'] / SECONDS_PER_HOUR:.1f} h | | ${measures['cost_usd']:.0f} | |"
    )


def write_runs(label: str, runs: FleetRuns) -> str:
    """Write what runs of a fleet took as a row; those that a trace's end cut off are in the last figure only."""
    ended = np.isfinite(runs.time_s)
    hours = runs.time_s[ended] / SECONDS_PER_HOUR
    return (
        f"| {label} | {runs.interruptions[ended].mean():.1f} | {hours.mean():.1f} h | {np.median(hours):.1f} h "
        f"| ${runs.cost_usd[ended].mean():.0f} | {runs.share_within(10 * SECONDS_PER_HOUR):.0%} |"
    )


if __name__ == "__main__":
    main()
