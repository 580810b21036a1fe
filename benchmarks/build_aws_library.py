"""Write the library's instance of Srift with VMs that AWS rents today, and prove what the manifest records.

ResNet50 on ImageNet: pass times from the public profiles of Sia, prices from a public list of AWS. The profiles are not
part of this repository; what is derived from them here is::

    python benchmarks/build_aws_library.py --data ../shared/data --date 2026-11-21
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build_fleet_library import BYTES_PER_PARAMETER
from library_manifest import LIBRARY, write_manifest

import optplan
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.instances.catalog import read_price_list
from optplan.lab.traces.sia_profiles import read_profile_tables
from optplan.lab.traces.sia_workloads import application_named
from optplan.units import SECONDS_PER_HOUR

CATALOG, REGION = "aws-v8-gpu-us-east-1-us-west-2.csv", "us-east-1"
LICENCE = "figures derived from public data; see the field source of the instance"
GLOBAL_BATCH, EPOCHS, IMAGES = 2048, 90, 1_281_167
#: Deadlines recorded in the manifest, in hours: the instance's own first.
DEADLINES_H = (4.0, 3.0, 6.0)
#: As PyTorch's DistributedDataParallel joins gradients unless told otherwise.
BUCKET_BYTES = 25 * 2**20
#: Least samples of the profiles: with fewer, a pass takes longer with 20 samples than with 28 on two of the GPUs.
LEAST_BATCH = 28
#: Significant digits kept of the measured seconds.
DIGITS = 6
#: Stages of ResNet50: planes, blocks, width of the output in pixels.
STAGES = ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7))


@dataclass(frozen=True)
class _Vm:
    """A type of VM: GPU, number of them, rated network in Gbit/s, and how many are assumed to be had."""

    gpu: str
    gpus: int
    network_gbit_per_s: float
    available: int


VMS = {
    "g4dn.12xlarge": _Vm("T4", 4, 50.0, 16),
    "g5.12xlarge": _Vm("A10G", 4, 40.0, 16),
    "g6.12xlarge": _Vm("L4", 4, 40.0, 16),
    "p3.8xlarge": _Vm("V100", 4, 10.0, 8),
    "p3.16xlarge": _Vm("V100", 8, 25.0, 4),
    "p4d.24xlarge": _Vm("A100", 8, 400.0, 1),
}
#: Which profile of Sia a GPU has, and the most samples that fit: a V100 of p3 has half the memory of the profiled one.
PROFILED = {"T4": ("aws", 200), "V100": ("azure", 300), "A100": ("dgx-ext", 800)}
#: GPUs that Sia did not profile: as a T4, but faster by the ratio of the memories' bandwidth, in GB/s.
T4_GB_PER_S = 320.0
SCALED = {"A10G": 600.0, "L4": 300.0}


def main() -> None:
    """Write the instance and its records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    parser.add_argument("--date", required=True, help="date recorded with the proofs")
    arguments = parser.parse_args()
    instance = derive_instance(arguments.data)
    optplan.write_json(instance, LIBRARY / f"{instance.name}.json", overwrite=True)
    best = [
        record_proof(instance.replace(deadline_s=hours * SECONDS_PER_HOUR), arguments.date) for hours in DEADLINES_H
    ]
    origin = "derived from the public Sia artifact (profiles) and an AWS price list"
    write_manifest({instance.name: {"origin": origin, "licence": LICENCE, "best": best}})


def derive_instance(data: Path) -> SriftInstance:
    """Derive the instance from the public data."""
    prices = read_price_list(data / "catalog" / CATALOG)
    types = {}
    for name, vm in VMS.items():
        price = prices.price_of(name, REGION)
        assert price.gpus == vm.gpus
        types[name] = {
            "gpu": vm.gpu,
            "gpus": vm.gpus,
            "price_usd_per_hour": round(price.price_usd_per_hour * price.gpus, DIGITS),
            "network_gbit_per_s": vm.network_gbit_per_s,
            "available": vm.available,
            "region": REGION,
            "price_source": price.source.replace(f", divided by {price.gpus}", ""),
            "price_date": price.date,
        }
    return SriftInstance.parse(
        {
            "formulation": "srift",
            "name": "srift-resnet50-aws",
            "description": f"ResNet50 on ImageNet, {EPOCHS} epochs with batch {GLOBAL_BATCH:,} within "
            f"{DEADLINES_H[0]:g} hours: the cheapest fleet of on-demand VMs of AWS.",
            "source": describe_sources(),
            "job": {
                "network": "ResNet50",
                "layers": resnet50_layers(),
                "devices": derive_devices(data / "sia" / "traces"),
                "source": "derived from public profiles; see the instance's source",
            },
            "global_batch": GLOBAL_BATCH,
            "iterations": -(-EPOCHS * IMAGES // GLOBAL_BATCH),
            "types": types,
            "bandwidth": {
                "form": "latency-bandwidth",
                "step_latency_s": 30e-6,
                "source": "assumed: the rated network, 30 microseconds a step",
            },
            "objective": "cost",
            "deadline_s": DEADLINES_H[0] * SECONDS_PER_HOUR,
            "bucket_bytes": BUCKET_BYTES,
            "launch_s": 150.0,
            "launch_billed": True,
        }
    )


def describe_sources() -> dict[str, str]:
    """Say what was measured, derived and assumed."""
    scaled = ", ".join(f"{gpu} {bandwidth:g}" for gpu, bandwidth in SCALED.items())
    return {
        "profiles": "siasosp23/artifacts: one GPU's pass without synchronisation, imagenet on aws (T4), azure (V100), "
        "dgx-ext (A100); a third of it is taken for forward, and the same for every GPU of a VM; below "
        f"{LEAST_BATCH} samples left out",
        "assumed profiles": f"no public one of A10G and L4: the T4's, scaled by the memory's rated GB/s (T4 "
        f"{T4_GB_PER_S:g}, {scaled}), a rule that a further sample on the three measured GPUs keeps within a fifth",
        "layers": "ResNet50's true sizes; ready after their share of the multiplications of the backward pass",
        "network": "rated by AWS; also taken for the GPUs within a VM, which NVLink connects faster on p3 and p4d",
        "availability": "assumed quotas",
        "prices": f"on demand in {REGION}; see price_source of each type",
        "launch": "150 s as in 5.4 of the Srift paper, billed",
    }


def derive_devices(profiles_dir: Path) -> dict[str, Any]:
    """Derive the profile of each kind of GPU."""
    devices = {gpu: derive_device(profiles_dir, *profiled) for gpu, profiled in PROFILED.items()}
    t4 = devices["T4"]
    for gpu, bandwidth in SCALED.items():
        ratio = T4_GB_PER_S / bandwidth
        passes = {field: [_round(ratio * each) for each in t4[field]] for field in ("forward_s", "backward_s")}
        devices[gpu] = {"batches": t4["batches"], **passes}
    return devices


def derive_device(profiles_dir: Path, suffix: str, most: int) -> dict[str, Any]:
    """Derive the profile of a kind of GPU from the passes of one of them."""
    passes = read_profile_tables(profiles_dir, application_named("imagenet"), suffix).placements["1"]
    kept = [
        (int(batch), step_s - sync_s)
        for (_, _, batch), (step_s, sync_s) in zip(passes.points, passes.times_s, strict=True)
        if LEAST_BATCH <= batch <= most
    ]
    return {
        "batches": [batch for batch, _ in kept],
        "forward_s": [_round(compute_s / 3.0) for _, compute_s in kept],
        "backward_s": [_round(compute_s * 2.0 / 3.0) for _, compute_s in kept],
    }


def resnet50_layers() -> dict[str, Any]:
    """Return the layers from the last to the first; a gradient is ready once its layer's multiplications are done."""
    backward = list(list_resnet50())[::-1]
    total, done, ready = sum(work for _, _, work in backward), 0, []
    for _, _, work in backward:
        done += work
        ready.append(round(done / total, DIGITS))
    return {
        "gradient_bytes": [float(BYTES_PER_PARAMETER * parameters) for _, parameters, _ in backward],
        "ready": ready,
        "names": [name for name, _, _ in backward],
    }


def list_resnet50() -> Iterator[tuple[str, int, int]]:
    """Yield name, parameters and multiplications of each trainable layer, in the order of the forward pass."""
    yield from _convolve("conv1", 3, 64, 7, 112)
    inputs = 64
    for stage, (planes, blocks, pixels) in enumerate(STAGES, start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            # The first block of all stages but the first one halves the picture, in its second convolution.
            before = 2 * pixels if block == 0 and stage > 1 else pixels
            yield from _convolve(f"{name}.conv1", inputs, planes, 1, before)
            yield from _convolve(f"{name}.conv2", planes, planes, 3, pixels)
            yield from _convolve(f"{name}.conv3", planes, 4 * planes, 1, pixels)
            if block == 0:
                yield from _convolve(f"{name}.downsample", inputs, 4 * planes, 1, pixels)
            inputs = 4 * planes
    yield "fc", (inputs + 1) * 1000, inputs * 1000


def _convolve(name: str, inputs: int, outputs: int, kernel: int, pixels: int) -> Iterator[tuple[str, int, int]]:
    """Yield a convolution without bias, and the batch normalisation after it, which multiplies next to nothing."""
    parameters = inputs * outputs * kernel**2
    yield name, parameters, parameters * pixels**2
    yield f"{name}.norm", 2 * outputs, 0


def record_proof(instance: SriftInstance, date: str) -> dict[str, Any]:
    """Solve an instance and return an entry of its record."""
    result = optplan.solve(instance)
    assert result.objective is not None
    print(instance.deadline_s, result.status, result.objective, f"{result.solve_seconds:.3f} s", result.solution)
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


def _round(seconds: float) -> float:
    return float(f"{seconds:.{DIGITS}g}")


if __name__ == "__main__":
    main()
