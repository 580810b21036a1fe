"""``optplan import spot-trace``: how often spot VMs are lost, from a trace of them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

from optplan.cli.commands import command
from optplan.cli.console import print_answer, print_json
from optplan.cli.options import FILE, TIME, argument, complete_instance, option
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.units import SECONDS_PER_HOUR, format_duration

if TYPE_CHECKING:
    from optplan.formulations.srift.data.instance import SriftInstance
    from optplan.lab.spot.traces import SpotEstimate, SpotTrace

_EXAMPLES = (
    "optplan import spot-trace us-west-2c_v100_1.json --wanted 4",
    "optplan import spot-trace us-west-2c_v100_1.json --into mine.yaml --vm-type p3.2xlarge --checkpoint-every 10min "
    "-o mine.json",
)


@command(
    name="spot-trace",
    short_help="How often spot VMs are lost, from a trace; into an instance of srift, if wanted.",
    examples=_EXAMPLES,
    renamed={"type": "--vm-type", "interruptions": "--checkpoint-every"},
    writes={"output": "the instance as JSON"},
)
def import_spot_trace(
    trace_path: Path = argument(metavar="FILE", type=FILE),
    *,
    wanted: int | None = option(
        type=int, metavar="N", help="VMs that were wanted all the time; the most that were alive unless given."
    ),
    into: str | None = option(
        metavar="INSTANCE", shell_complete=complete_instance, help="Fill the rate into this instance."
    ),
    vm_type: str | None = option(metavar="NAME", help="Its type of VM that the trace is of."),
    together: bool = option(
        is_flag=True, help="Count VMs that are lost at the same tick as one loss: for fleets as large as that."
    ),
    checkpoint_every: float | None = option(
        type=TIME,
        help="Training between two checkpoints, such as 10min; needed where the instance does not say what a loss "
        "does.",
    ),
    restart: float | None = option(
        type=TIME, help="From a loss until training goes on; what it took to replace a VM in the trace unless given."
    ),
    name: str | None = option(metavar="NAME", help="Name of the instance."),
    outputs: Outputs,
) -> int:
    """Estimate how often spot VMs are lost, how long they are missed, and how many of those wanted there are.

    FILE is JSON as skypilot-org/spot-traces has it: {"metadata": {"gap_seconds": 300}, "data": [4, 4, 3, ...]}, VMs at
    each tick. With --into, the rate is filled into a type of VM of an instance of srift, whose times and costs are
    expectations then.
    """
    from optplan.lab.spot.traces import estimate_spot, read_spot_trace

    filling: dict[str, object] = {"--vm-type": vm_type, "--checkpoint-every": checkpoint_every, "--restart": restart}
    filling |= {"--name": name, "--together": together or None, "--out": outputs.path("--out")}
    if into is None:
        for each, given in filling.items():
            if given is not None:
                raise UsageError(f"{each}: has a meaning with --into INSTANCE only")
    elif vm_type is None:
        raise UsageError("--vm-type: say which type of VM of the instance the trace is of")
    trace = read_spot_trace(trace_path, wanted=wanted)
    estimate = estimate_spot(trace)
    if into is None or vm_type is None:
        if outputs.as_json:
            print_json(_to_json_data(trace, estimate))
        else:
            _print_estimate(trace, estimate)
        return 0
    rate = estimate.events_per_vm_hour if together else estimate.interruptions_per_hour
    instance = _fill(into, vm_type, rate, estimate, checkpoint_every, restart)
    source = f"{rate:.4g} interruptions an hour, estimated from the trace {trace_path.name}"
    instance = instance.replace(source={**instance.source, f"interruptions of {vm_type}": source})
    instance = instance if name is None else instance.replace(name=name)
    if outputs.as_json:
        print_json(instance.to_json_data())
    else:
        from optplan.reporting.presentation import presenter_of

        _print_estimate(trace, estimate)
        print_answer("", *presenter_of(instance).present_instance(instance))
    outputs.save_json(instance)
    return outputs.exit_code(0)


def _fill(
    into: str,
    vm_type: str,
    rate: float,
    estimate: SpotEstimate,
    checkpoint_every_s: float | None,
    restart_s: float | None,
) -> SriftInstance:
    """Read the instance and fill the rate in; what a loss does is what the options say, else what the instance says."""
    from optplan.formulations.srift.data.instance import Interruptions, SriftInstance
    from optplan.instances.files import read_instance
    from optplan.lab.spot.traces import set_interruptions
    from optplan.reporting.presenters import require_kind

    refused = "--into: {name!r} is of formulation {formulation!r}; an instance of srift has types of VM"
    instance = require_kind(SriftInstance, refused)(read_instance(into))
    terms = instance.interruptions
    if checkpoint_every_s is not None:
        until_replaced_s = restart_s if restart_s is not None else estimate.replacement_s
        if until_replaced_s is None:
            raise UsageError("--restart: no VM was lost in the trace, so it does not say how long a restart takes")
        terms = Interruptions(checkpoint_every_s=checkpoint_every_s, restart_s=until_replaced_s)
    elif restart_s is not None and terms is not None:
        terms = terms.replace(restart_s=restart_s)
    elif restart_s is not None:
        raise UsageError("--checkpoint-every: say how much training is between two checkpoints, too")
    return set_interruptions(instance, {vm_type: rate}, interruptions=terms)


def _to_json_data(trace: SpotTrace, estimate: SpotEstimate) -> dict[str, object]:
    """Return plain data; what is infinite is null there."""
    figures = {**dataclasses.asdict(estimate), "events_per_vm_hour": estimate.events_per_vm_hour}
    finite = {name: figure if figure is None or math.isfinite(figure) else None for name, figure in figures.items()}
    return {"trace": trace.name, "wanted": trace.wanted, **finite}


def _print_estimate(trace: SpotTrace, estimate: SpotEstimate) -> None:
    from optplan.reporting.tables import fact_table

    interval = f"{estimate.low:.3g} to {estimate.high:.3g}"
    replaced = (
        "nothing was lost" if estimate.replacement_s is None else f"{estimate.replacement_s / SECONDS_PER_HOUR:.2f} h"
    )
    facts = [
        ("trace", f"{trace.name}: up to {trace.wanted} VMs for {format_duration(trace.duration_s)}"),
        ("lost", f"{estimate.losses:,} VMs in {estimate.vm_hours:,.0f} VM-hours, at {estimate.events:,} moments"),
        ("interruptions of a VM", f"{estimate.interruptions_per_hour:.3g} an hour (95 %: {interval})"),
        ("moments a VM-hour", f"{estimate.events_per_vm_hour:.3g}"),
        ("until one is replaced", replaced),
        ("available", f"{estimate.availability:.0%} of those wanted"),
    ]
    print_answer(fact_table(facts))
