"""Write the library's instances of Srift about lost VMs, and prove what the manifest records.

``srift-interruption-replan`` is what is left of ``srift-interruption``, which ``build_fleet_library.py`` writes, after
the paper's interruption. ``srift-spot-or-on-demand`` has one type of VM in both forms; it needs the public data::

    python benchmarks/build_spot_library.py --data ../shared/data --date 2026-11-21
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from build_fleet_library import BANDWIDTH, CALIBRATED, LICENCE, PAPER, even_layers, job
from library_manifest import LIBRARY, write_manifest

import optplan
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.study.replanning import FleetStanding, replan
from optplan.instances.catalog import read_price_list
from optplan.instances.files import read_instance
from optplan.lab.spot.traces import estimate_spot, read_spot_trace
from optplan.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE

#: Section 5.4: the state after 222 s. New VMs take 150 s; the detaching that was expected to take 5 s took 4.
LOSS = FleetStanding(
    elapsed_s=222,
    iterations_done=200,
    running={"p3.8xlarge": 1},
    lost={"p3.8xlarge": 1},
    ready_s=138,
    launch_s=150,
    detach_s=4,
)
#: Where p3.2xlarge was followed, and how many were wanted there.
TRACE, WANTED = "preemption/4-node/aws-08-03-2023/us-west-2c_v100_1.json", 4
CATALOG, INSTANCE_TYPE, REGION = "aws-v8-gpu-us-east-1-us-west-2.csv", "p3.2xlarge", "us-west-2"
#: Deadlines recorded in the manifest, in hours: the instance's own first.
DEADLINES_H = (10.0, 4.0, 6.0, 24.0)


def main() -> None:
    """Write the instances and their records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    parser.add_argument("--date", required=True, help="date recorded with the proofs")
    arguments = parser.parse_args()
    records = {}
    choice = derive_choice(arguments.data)
    asked: dict[SriftInstance, list[dict[str, Any]]] = {
        derive_rest(): [{}],
        choice: [{"deadline_s": hours * SECONDS_PER_HOUR} for hours in DEADLINES_H],
    }
    for instance, changes in asked.items():
        optplan.write_json(instance, LIBRARY / f"{instance.name}.json", overwrite=True)
        best = [record_proof(instance.replace(**change), arguments.date) for change in changes]
        origin = "a case of the paper, calibrated" if instance is not choice else "derived from public data, calibrated"
        records[instance.name] = {"origin": origin, "licence": LICENCE, "best": best}
    write_manifest(records)


def derive_rest() -> SriftInstance:
    """Derive what is left of section 5.4's run after its interruption."""
    before = read_instance("srift-interruption")
    assert isinstance(before, SriftInstance)
    return replan(before, LOSS).instance.replace(
        name="srift-interruption-replan",
        description="Section 5.4 after the interruption: one p3.8xlarge is left, 200 iterations, and 274 s of the 500.",
    )


def derive_choice(data: Path) -> SriftInstance:
    """Derive a job for which the same VM can be had on demand and as a spot VM."""
    price = read_price_list(data / "catalog" / CATALOG, date="after 2025-08").price_of(INSTANCE_TYPE, REGION)
    estimate = estimate_spot(read_spot_trace(data / "spot-traces" / TRACE, wanted=WANTED))
    assert price.spot_usd_per_hour is not None
    assert estimate.replacement_s is not None
    per_hour = round(estimate.interruptions_per_hour, 3)
    restart_s = SECONDS_PER_MINUTE * round(estimate.replacement_s / SECONDS_PER_MINUTE)
    network = job("ResNet50", even_layers(102.2e6, 161), {"p3.8xlarge": (0.02, 0.00068835, 512)})
    vm = {"gpu": "V100", "network_gbit_per_s": 10.0, "instance_type": INSTANCE_TYPE, "region": REGION}
    on_demand = {"price_usd_per_hour": price.price_usd_per_hour, "price_source": price.source}
    spot = {"price_usd_per_hour": price.spot_usd_per_hour, "price_source": price.spot_source}
    return SriftInstance.parse(
        {
            "formulation": "srift",
            "name": "srift-spot-or-on-demand",
            "description": f"ResNet50 for 40,000 iterations within {DEADLINES_H[0]:g} hours, the cheapest in the mean: "
            "on VMs that stay, on spot VMs that are lost at times, or on both.",
            "source": {
                "profiles": f"{CALIBRATED} (its p3.8xlarge has four of the same GPUs)",
                "prices": price.source,
                "network": "the rated 10 Gbit/s of the VM",
                "interruptions": f"{per_hour} an hour and {restart_s:g} s to replace a VM, estimated from the trace "
                f"{TRACE} of skypilot-org/spot-traces; checkpoints are assumed",
                "job": f"assumed; not a case of {PAPER}",
            },
            "job": network,
            "global_batch": 512,
            "iterations": 40_000,
            "types": {
                "on-demand": vm | on_demand | {"price_date": price.date, "available": 16},
                "spot": vm
                | spot
                | {"price_date": price.date, "available": 16, "spot": True}
                | {"interruptions_per_hour": per_hour},
            },
            "bandwidth": BANDWIDTH,
            "objective": "cost",
            "deadline_s": DEADLINES_H[0] * SECONDS_PER_HOUR,
            "interruptions": {"checkpoint_every_s": 600, "checkpoint_s": 10, "restart_s": restart_s},
        }
    )


def record_proof(instance: SriftInstance, date: str) -> dict[str, Any]:
    """Solve an instance and return an entry of its record."""
    result = optplan.solve(instance)
    assert result.objective is not None
    print(
        instance.name,
        instance.limits,
        result.status,
        result.objective,
        f"{result.solve_seconds:.3f} s",
        result.solution,
    )
    return {
        "problem": str(instance.problem),
        "policy": "one-batch",
        "deadline": f"{instance.deadline_s:g}s",
        "objective": result.objective,
        "bound": result.bound,
        "proof": str(result.bound_proof),
        "solver": result.solver,
        "date": date,
    }


if __name__ == "__main__":
    main()
