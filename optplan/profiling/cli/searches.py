"""``optplan measure search`` and ``measure jobs``: trials and jobs that run here for a moment, for instances."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optplan.cli.commands import Command
from optplan.cli.console import Progress, Shown, note
from optplan.cli.options import DATA, DIR, NUMBERS, PRICE, TIME, Kind
from optplan.cli.outputs import Outputs
from optplan.errors import DataWarning, UsageError

if TYPE_CHECKING:
    from optplan.profiling.search_profile import Profile
    from optplan.profiling.trial_timings import Estimate, MeasuredSpeedup, SearchTimings

F = TypeVar("F", bound=Callable[..., Any])

#: Fields of a RubberBand search's cloud that are given, and not measured.
_CLOUD = ("gpus_per_instance", "price_usd_per_hour", "provision_s", "initialise_s")


def _trained(command: F) -> F:
    """Add the options that say what is run here, and how often."""
    options = (
        click.option(
            "--train", metavar="TARGET", default="", help="What to train: module:Trainable, or file.py:Trainable."
        ),
        click.option("--command", metavar="TEXT", default="", help="A command line to train with, instead of --train."),
        click.option("--space", type=DATA, help="What configurations are drawn from (YAML or JSON)."),
        click.option(
            "--gpus",
            required=True,
            type=NUMBERS,
            help="On how many GPUs (CPU slots where there are none); RubberBand takes powers of two: 1,2,4.",
        ),
        click.option("--iterations", type=int, metavar="N", default=20, help="Timed on each."),
        click.option("--warm-up", type=int, metavar="N", default=2, help="Left out before those."),
        click.option("--repeats", "repetitions", type=int, metavar="N", default=3, help="Trials, one by one."),
        click.option("--time-limit", "time_limit_s", type=TIME, help="For all of it: 10min."),
        click.option("--metric", metavar="NAME", default="loss", help="What trials have to show."),
        click.option("--seed", type=click.IntRange(min=0), default=0, help="Draws configurations."),
        click.option(
            "--launcher",
            type=click.Choice(["single", "torchrun"]),
            default="single",
            help="One process for a trial, or one for each GPU.",
        ),
        click.option("--executor", type=click.Choice(["local", "ray"]), default="local", help="Where it runs."),
        click.option(
            "--address", metavar="ADDR", default="", help="Of a Ray cluster, HOST:PORT or auto; else one is made here."
        ),
        click.option("--scratch", type=DIR, help="Folder that all machines of a cluster see."),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


def _run(options: dict[str, Any], *, work: str = "") -> tuple[Profile, str]:
    from optplan.profiling.search_profile import ProfileSettings, profile_here

    if bool(options["train"]) == bool(options["command"]):
        raise UsageError("--train: give what to train with --train or --command, one of the two")
    if options["address"] and options["executor"] != "ray":
        problem = f"executor {options['executor']!r} has none"
        raise UsageError(f"--address: {problem}; give --executor ray, or leave it out")
    counts = ("gpus", "iterations", "warm_up", "repetitions", "time_limit_s")
    settings = ProfileSettings(work=work, **{name: options.pop(name) for name in counts})
    if not options["address"]:
        _warn_of_cores(max(settings.gpus))
    with Progress("profiling", tells=True) as progress:
        profiled = profile_here(settings, on_event=progress.listen, **options)
    widths = ", ".join(map(str, settings.gpus))
    words = f"{settings.repetitions} trials on {widths} GPUs, up to {settings.iterations} iterations each"
    return profiled, f"optplan measure: {words} after {settings.warm_up} of warm-up"


def _warn_of_cores(gpus: int) -> None:
    from optplan.execution.executors import list_devices

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not list_devices() and gpus > cores:
        message = f"--gpus: {gpus} slots share {cores} cores here, and iterations take as long as they do on these"
        warnings.warn(message, DataWarning, stacklevel=2)


def _parse_stages(text: str, *, what: str) -> dict[str, Any]:
    """Read ``8x10,4x20`` as stages."""
    pairs = [part.strip().split("x") for part in text.split(",")]
    if not all(len(pair) == 2 and all(number.isdecimal() for number in pair) for pair in pairs):
        raise UsageError(f"{what}: got {text!r}; trials x iterations of each stage are needed, as in 8x10,4x20,2x40")
    return {"form": "stages", "stages": [{"trials": int(n), "iterations": int(i)} for n, i in pairs]}


@click.command(
    cls=Command,
    short_help="Time a search's trials here, for RubberBand and SEER.",
    examples=(
        "optplan measure search --train train.py:Trainable --gpus 1,2 --into my-seer-search.yaml -o measured.json",
        "optplan measure search --train train.py:Trainable --space space.yaml --gpus 1,2,4 --into mine.yaml "
        "-o measured.json",
        "optplan measure search --train train.py:Trainable --gpus 1,2,4 --stages 8x10,4x20,2x40 --price 3.06usd/hour "
        "--gpus-per-node 4 --deadline 20min -o search.json",
    ),
    writes={"output": "the instance, or its sections training and cloud, as JSON"},
)
@_trained
@click.option("--into", "base", metavar="INSTANCE", help="A search whose training, or SEER's resize_s, is renewed.")
@click.option(
    "--stages",
    metavar="NxI,NxI",
    type=Kind("stages", _parse_stages),
    help="Trials x iterations of the search's stages.",
)
@click.option("--deadline", type=TIME, help="For the search: 20min.")
@click.option(
    "--gpus-per-node", "gpus_per_instance", type=click.IntRange(min=1), metavar="N", help="Of what will be rented."
)
@click.option("--price", "price_usd_per_hour", type=PRICE, help="Of a machine: 3.06usd/hour.")
@click.option("--provision", "provision_s", type=TIME, help="From request to launch, of the cloud: 20s.")
@click.option("--initialise", "initialise_s", type=TIME, help="Of a new machine in the cloud: 2min.")
def search(
    *,
    base: str | None,
    stages: dict[str, Any] | None,
    deadline: float | None,
    outputs: Outputs,
    **options: Any,  # noqa: ANN401 - those of _trained, and fields of the cloud
) -> int:
    """Time a search's trials on more and more GPUs: iterations, starts, checkpoints, and how they vary.

    Each repetition is a trial with a configuration of its own. It starts on the fewest GPUs, and goes on from its
    checkpoint on each number of GPUs in turn, as a trial does that is promoted. What is trained runs as it stands: name
    only files that you trust.
    """
    from optplan.formulations.rubberband.data.instance import RubberBandInstance
    from optplan.formulations.seer.data.instance import SeerInstance
    from optplan.instances.files import read_instance
    from optplan.profiling.profiled_instances import describe_search, list_missing, renew_pauses, renew_search
    from optplan.profiling.trial_timings import summarise

    read = None if base is None else read_instance(base)
    seer = read if isinstance(read, SeerInstance) else None
    old = None if base is None or seer is not None else read_instance(base, RubberBandInstance)
    cloud = {name: options.pop(name) for name in _CLOUD}
    asked = {"experiment": stages, "deadline_s": deadline}
    asked = {name: value for name, value in asked.items() if value is not None}
    if seer is not None and (asked or any(value is not None for value in cloud.values())):
        message = "--into: of a SEER search only resize_s is renewed; leave the options of a RubberBand search out"
        raise UsageError(message)
    profiled, words = _run(options)
    measured = summarise(profiled.timings)
    if seer is not None:
        renewed = renew_pauses(seer, measured, words).to_json_data()
        return outputs.deliver(renewed, lambda: _show_search(measured))
    if old is not None:
        made = renew_search(old, measured, words, **cloud).replace(**asked).to_json_data()
    else:
        made = describe_search(measured, profiled.request_s, profiled.launch_s, words, **cloud) | asked
    missing = list_missing(made)
    if not missing:
        made = RubberBandInstance.parse(made).to_json_data()
    code = outputs.deliver(made, lambda: _show_search(measured))
    if missing and "--out" in outputs:
        note(f"to be solved it still needs {', '.join(missing)}: add them, or give --into")
    return code


def _show_search(measured: SearchTimings) -> Iterable[Shown]:
    """Say what was measured: a row for each number of GPUs, and what else takes time."""
    from optplan.reporting.tables import fact_table, record_table

    rows = [
        {
            "gpus": gpus,
            "iteration_s": f"{each.mean:.3g}",
            "95 % interval": _write_interval(each),
            "start_s": f"{measured.start_s[gpus].mean:.3g}",
            "deviation_s": f"{measured.start_s[gpus].sd:.2g}",
        }
        for gpus, each in measured.iteration_s.items()
    ]
    yield record_table("measured", rows)
    yield from _say_interval(measured.iteration_s.values())
    yield ""
    facts = [
        ("noise", f"{measured.iteration_noise:.1%} between iterations, {measured.trial_noise:.1%} between trials"),
        ("starts", "differ with the GPUs" if measured.starts_differ else "do not depend on the GPUs"),
    ]
    parts = {
        "launch": measured.launch_s,
        "initialisation": measured.initialise_s,
        "loading": measured.load_s,
        "saving": measured.save_s,
    }
    facts += [(name, f"{_write(each.mean)} ± {_write(each.sd)}") for name, each in parts.items() if each is not None]
    yield fact_table(facts)


@click.command(
    cls=Command,
    short_help="Measure how jobs speed up, for BOA's classes.",
    examples=(
        'optplan measure jobs --command "python train.py" --gpus 1,2,4 -o class.json',
        "optplan measure jobs --train train.py:Trainable --work-metric samples --gpus 1,2,4,8 --launcher torchrun "
        "--into cluster.yaml --class bert --gpu t4 -o measured.json",
    ),
    writes={"output": "the class's fields, or the instance, as JSON"},
)
@_trained
@click.option(
    "--work-metric",
    "work",
    metavar="NAME",
    default="",
    help="Metric with an iteration's work; without it all do the same.",
)
@click.option("--gpu", "gpu_type", metavar="NAME", default="gpu", help="What instances call these GPUs.")
@click.option("--into", "base", metavar="INSTANCE", help="A cluster of which one class is renewed.")
@click.option("--class", "name", metavar="NAME", help="The class of --into.")
def jobs(
    *,
    work: str,
    gpu_type: str,
    base: str | None,
    name: str | None,
    outputs: Outputs,
    **options: Any,  # noqa: ANN401 - those of _trained
) -> int:
    """Measure the throughput of jobs at several widths by running them, with confidence intervals.

    Every repetition is a job that starts on the fewest GPUs and goes on from its checkpoint on each width in turn, so
    what a change of width costs is measured as well. What is run runs as it stands: name only files that you trust.
    """
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.instances.files import read_instance
    from optplan.profiling.profiled_instances import describe_class, renew_class, require_class
    from optplan.profiling.trial_timings import measure_speedup

    if (base is None) != (name is None):
        raise UsageError("--class: an instance's class is renewed; give both --into and --class, or neither")
    old = None if base is None else read_instance(base, BoaInstance)
    if old is not None and name is not None:
        require_class(old, name, gpu_type, min(options["gpus"]))
    profiled, words = _run(options, work=work)
    measured = measure_speedup(profiled.timings)
    made = describe_class(measured, gpu_type)
    if old is not None and name is not None:
        made = renew_class(old, name, measured, gpu_type, words).to_json_data()
    return outputs.deliver(made, lambda: _show_speedup(measured))


def _show_speedup(measured: MeasuredSpeedup) -> Iterable[Shown]:
    from optplan.reporting.tables import fact_table, record_table

    rows = [
        {
            "gpus": width.gpus,
            "work a second": f"{width.throughput.mean:.4g}",
            "speedup": f"{width.speedup:.4g}",
            "95 % interval": f"{width.interval[0]:.4g} to {width.interval[1]:.4g}",
            "repetitions": width.throughput.count,
        }
        for width in measured.widths
    ]
    yield record_table("measured", rows)
    yield ""
    yield fact_table([("change of width", f"{_write(measured.rescale_s.mean)} ± {_write(measured.rescale_s.sd)}")])


def _write(seconds: float) -> str:
    return f"{seconds:.3g} s"


def _write_interval(estimate: Estimate) -> str:
    reach = estimate.interval
    return "-" if reach is None else f"{reach[0]:.3g} to {reach[1]:.3g}"


def _say_interval(estimates: Iterable[Estimate]) -> Iterable[str]:
    """Say what the intervals are, and where too few repetitions leave one open."""
    known = [(each.count, each.interval) for each in estimates if each.interval is not None]
    if not known:
        return
    repetitions = min(count for count, _ in known)
    said = f"The true mean lies in the 95 % interval, as far as {repetitions} repetitions tell (Student's t)."
    if any(interval[0] <= 0.0 for _, interval in known):
        said += " One that begins at 0 says nothing of its lower end: give more --repeats."
    yield said
