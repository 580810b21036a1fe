"""``optplan measure network`` and ``allreduce``: a network and all-reduces, measured here for Srift."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.commands import command
from optplan.cli.console import Progress, Shown
from optplan.cli.options import FILE, NUMBERS, SIZE, TIME, argument, option
from optplan.cli.outputs import Outputs
from optplan.profiling.cli.bandwidth import deliver_measurements

if TYPE_CHECKING:
    from optplan.formulations.srift.data.profiles import JobProfile

_MEGABYTE = 1e6


@command(
    short_help="Measure a PyTorch network on this device, for Srift.",
    examples=(
        "optplan measure network train.py:make_network --largest-batch 64 -o profile.json",
        "optplan measure network mypackage.networks:resnet --device cuda --gpu t4 --merge v100.json -o profile.json",
        "optplan measure network train.py:make_network --device cuda --gpu t4 --into fleet.json -o fleet-2.json",
    ),
    writes={"output": "the profile as JSON, for the field `job` of an instance; with --into the instance"},
)
@click.option("--least-batch", type=int, metavar="N", default=1, help="Samples of the least batch.")
@click.option("--repeats", "repetitions", type=int, metavar="N", default=11, help="Timed passes at each batch.")
@click.option("--warm-up", type=int, metavar="N", default=3, help="Passes before those.")
@click.option("--samples", type=int, metavar="N", default=16, help="Backward passes watched layer by layer.")
@click.option("--threads", type=int, metavar="N", help="That PyTorch uses on a CPU; its own choice unless given.")
@click.option("--mend-falls", is_flag=True, help="Level times that fall with a larger batch, with a warning.")
def network(
    target: str = argument(metavar="MODULE:FACTORY"),
    *,
    called: str | None = option(
        "--network", metavar="NAME", help="What the profile calls the network; the module's class unless given."
    ),
    device: str = option(metavar="NAME", default="cpu", help="cpu, cuda or cuda:N."),
    gpu: str | None = option(metavar="NAME", help="What the profile calls the device; its product name unless given."),
    largest_batch: int | None = option(
        type=int, metavar="N", help="Samples at most; needed on a CPU, by default what fits on a GPU."
    ),
    merge: tuple[Path, ...] = option(
        type=FILE,
        multiple=True,
        help="Profile of the same network on another device, to be in the output, too; may be repeated.",
    ),
    base: str | None = option("--into", metavar="INSTANCE", help="A job on VMs whose profile gets this device, too."),
    outputs: Outputs,
    **options: Any,  # noqa: ANN401 - the fields of ProfilerSettings
) -> int:
    """Measure a PyTorch network: largest batch, times of its passes, and when each layer's gradient is ready.

    MODULE:FACTORY names a function of yours, as in train.py:make_network or mypackage.networks:make_network. It takes
    nothing and returns (module, batches) or (module, batches, loss), where batches is a function from a number of
    samples to the module's inputs, or inputs to repeat. It runs as it stands: name only files that you trust.
    """
    from optplan.formulations.srift.data.instance import SriftInstance
    from optplan.instances.files import read_instance
    from optplan.profiling.profiled_instances import merge_profiles, read_profile
    from optplan.profiling.torch_profiler import ProfilerSettings, profile_module
    from optplan.profiling.workloads import load_workload

    settings = ProfilerSettings(**options)
    old = None if base is None else read_instance(base, SriftInstance)
    others = [read_profile(path) for path in merge]
    workload = load_workload(target)
    with Progress("profiling"):
        measured = profile_module(
            workload.module,
            workload.make_batch,
            loss=workload.loss,
            device=device,
            gpu=gpu,
            largest_batch=largest_batch,
            settings=settings,
        )
    known = [] if old is None else [old.job]  # first: what is known keeps its order of layers and its name
    made = merge_profiles([*known, measured.replace(network=called or measured.network), *others])
    return outputs.deliver(made if old is None else old.replace(job=made), lambda: _show_profile(made))


def _show_profile(made: JobProfile) -> Iterable[Shown]:
    """Say what was measured: the network, and a row for each batch on each device."""
    from optplan.reporting.tables import fact_table, record_table

    layers = made.layers
    sizes = layers.gradient_bytes / _MEGABYTE
    facts = [
        ("network", made.network),
        ("gradients", f"{sizes.sum():.4g} MB in {sizes.size} layers, the largest {sizes.max():.4g} MB"),
    ]
    if layers.probability is not None:
        facts.append(("not always run", f"{(layers.probability < 1).sum()} layers"))
    facts += [
        (f"deviation on {name}", f"{device.deviation:.1%} from pass to pass") for name, device in made.devices.items()
    ]
    yield fact_table([*facts, ("source", made.source)])
    rows = [
        {"device": name, "batch": batch, "forward_ms": f"{1e3 * forward:.3g}", "backward_ms": f"{1e3 * backward:.3g}"}
        for name, device in made.devices.items()
        for batch, forward, backward in zip(
            device.batches.tolist(), device.forward_s.tolist(), device.backward_s.tolist(), strict=True
        )
    ]
    yield record_table("passes", rows)


@command(
    short_help="Measure all-reduces between processes, for Srift.",
    examples=(
        "optplan measure allreduce --ranks 2,4 --most-bytes 16MiB --vm-type laptop -o measurements.csv",
        "optplan measure allreduce --backend nccl --ranks 2,4,8 --most-bytes 512MiB --vm-type p3.16xlarge -o p3.csv",
    ),
    renamed={"timeout_s": "--time-limit"},
    writes={"output": "the measurements as CSV"},
)
@click.option(
    "--vm-type",
    metavar="NAME",
    help="What instances call these VMs; here unless given.",
)
@click.option("--cloud", metavar="NAME", help="Whose VMs they are, for models that learn from several.")
@click.option("--region", metavar="NAME", help="Where they are.")
@click.option("--zone", metavar="NAME", help="Where there.")
@click.option("--rated-gbit-per-s", type=float, metavar="N", help="Network of a VM, as the provider rates it.")
@click.option("--ranks", type=NUMBERS, help="Numbers of ranks; 2 unless given.")
@click.option("--least-bytes", type=SIZE, help="The smallest buffer; 4B unless given.")
@click.option(
    "--most-bytes", type=SIZE, help="The largest buffer, 16MiB unless given; those between are powers of two."
)
@click.option("--transfers", type=NUMBERS, help="All-reduces at once; 1 unless given.")
@click.option("--repeats", type=int, metavar="N", help="Timings, and rows, of a point; 5 unless given.")
@click.option(
    "--backend", type=click.Choice(["gloo", "nccl"]), help="PyTorch's; nccl where each rank can have a GPU, else gloo."
)
@click.option("--time-limit", "timeout_s", type=TIME, help="End the measurement after so long; 10min unless given.")
def allreduce(
    *,
    outputs: Outputs,
    **options: Any,  # noqa: ANN401 - what is measured, how and where; None where it was not given
) -> int:
    """Measure real all-reduces with PyTorch over sizes and numbers of ranks.

    On one machine it starts the ranks itself: processes that talk over the loopback interface (gloo), or one for each
    GPU (nccl). On several machines start it with torchrun, as in `torchrun --nnodes 4 ... --no-python optplan measure
    allreduce --ranks 2,4 -o measurements.csv`; the first rank writes.
    """
    from optplan.profiling.allreduce_prober import (
        ProbeSettings,
        describe_place,
        probe,
    )

    given = {name: value for name, value in options.items() if value is not None}
    how = {name: given.pop(name) for name in ("backend", "timeout_s") if name in given}
    names = ("ranks", "least_bytes", "most_bytes", "transfers", "repeats")
    settings = ProbeSettings(**{name: given.pop(name) for name in names if name in given})
    place = describe_place(given.pop("vm_type", "here"), **given)
    with Progress("probing"):
        data = probe(settings, place, **how)
    return 0 if data is None else deliver_measurements(data, outputs)  # None on ranks that are not the first
