"""``optplan simulate cluster``: a trace of jobs, replayed under a policy."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.commands import command
from optplan.cli.console import Progress, Shown
from optplan.cli.options import DIR, PRICE, Kind, flag, list_fields, named, option, with_options
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.lab.cli.job_sources import JobSource, logs_or_instances
from optplan.lab.cli.simulating import profiles_options
from optplan.lab.fields import CellFields, WorldFields

if TYPE_CHECKING:
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.instances.job_traces import JobTrace
    from optplan.lab.cluster.outcome import Outcome
    from optplan.lab.sweeps import Cell

#: Exit code where no job could be completed.
_NOTHING_DONE = 3


def _read_interruptions(text: str, *, what: str) -> dict[str, Any]:
    try:
        return {"interruptions_per_node_hour": float(text)}
    except ValueError:
        if Path(text).suffix:
            return {"spot_trace": text}
        raise UsageError(f"{what}: got {text!r}; give something like 0.05 or the file of a trace") from None


def _read_stragglers(text: str, *, what: str) -> dict[str, Any]:
    law, colon, deviation = text.rpartition(":")
    try:
        given = {"straggling": float(deviation)}
    except ValueError:
        raise UsageError(f"{what}: got {deviation!r}; give something like 0.036 or normal:0.036") from None
    return given | ({"straggling_law": law} if colon else {})


#: What fills fields of a cell and its world.
_FIELDS = [
    *list_fields(CellFields, kinds={"price_usd_per_hour": PRICE}),
    *list_fields(WorldFields),
    click.Option(
        ["--interruptions"],
        type=Kind("RATE|TRACE", _read_interruptions),
        help="Spot nodes: times per hour that a node is taken away, or the file of a trace of spot VMs.",
    ),
    click.Option(
        ["--stragglers"],
        type=Kind("[LAW:]DEVIATION", _read_stragglers),
        help="Standard deviation of a factor of mean 1 that each epoch of each job gets; LAW is lognormal or normal.",
    ),
]


@command(
    "cluster",
    short_help="Replay jobs of a log, a trace or an instance under a plan or a policy.",
    examples=(
        "optplan simulate cluster jobs.txt --from sacct --yes --policy weighted-shortest:plan.json --nodes 6 "
        "--gpus-per-node 8",
        "optplan simulate cluster boa-newtrace --jobs 1000 --policy plan.json --gpus-per-node 4 --report week.html",
        "optplan simulate cluster jobs.csv --instance mine.json --policy one-width:8 --gpus-per-node 8",
        "optplan simulate cluster newTrace.csv --profiles profiles --policy plan.json --slowdown",
        "optplan simulate cluster newTrace.csv --profiles profiles --policy least-attained --nodes 48 --json",
        "optplan simulate cluster traces/*.csv --profiles profiles --policy one-gpu --policy pollux --results sweep",
    ),
    renamed=named("policy", "gpu", "nodes", "slowdown", "timing", "instance")
    | {str(field.name): flag(field) for field in _FIELDS}
    | {"draw_jobs": "--jobs", "draw_span_s": "--span", "interruptions_per_node_hour": "--interruptions"}
    | {"spot_trace": "--interruptions", "straggling": "--stragglers", "straggling_law": "--stragglers"},
    writes={"output": "what came of it as JSON", "report": "Write an HTML report."},
)
@logs_or_instances
@profiles_options(required=False)
@with_options(_FIELDS)
def simulate_cluster(
    source: list[JobSource],
    *,
    policies: tuple[str, ...] = option(
        "--policy",
        required=True,
        multiple=True,
        metavar="PLAN|NAME",
        help="The file of a BOA plan, or one-gpu, one-width:N, reservation, equal-share, least-attained, pollux or "
        "pollux-autoscaled:EFFICIENCY (such as 0.5, or a band: 0.35:0.65); BOA's scheduler as first-come:PLAN, "
        "least-attained:PLAN, weighted-shortest:PLAN or autoscaled:PLAN; boa-online:INSTANCE, boa-held:INSTANCE, "
        "boa-repaid:INSTANCE or price-that-fits:INSTANCE.",
    ),
    nodes: tuple[int, ...] = option(
        type=click.IntRange(min=1),
        multiple=True,
        metavar="N",
        help="Nodes of a cluster of fixed size; by default nodes are rented when they are needed.",
    ),
    seeds: tuple[int, ...] = option(
        "--seed", type=int, multiple=True, metavar="N", help="Of whatever is drawn at random; 0 by default."
    ),
    results: Path | None = option(
        type=DIR,
        help="Folder for the results of several simulations, a file each; those whose file is there are not run again.",
    ),
    processes: int | None = option(
        type=click.IntRange(min=1),
        metavar="N",
        help="Processes over which several simulations are spread; one for each processor by default.",
    ),
    engine: str = option(
        type=click.Choice(["processes", "ray"]),
        default="processes",
        help="Who runs several simulations: processes of this machine, or a Ray cluster.",
    ),
    outputs: Outputs,
    **fields: Any,  # noqa: ANN401 - of a cell and its world, which check them
) -> int:
    """Replay jobs one by one: of a log, of its jobs table, drawn from an instance, or of a workload of Sia's.

    The policy says how many GPUs each job holds; jobs pause whenever that changes, and share nodes. What is true of a
    job is what the instance says of its class, of Sia's workloads what --profiles measured; --gpu names the type of all
    nodes, where an instance has several, and of Sia's as the profiles do (aws unless given). GPU-hours are given as
    jobs held them and as nodes were rented. Jobs that can never run are reported. Exit code 3: none was completed.

    LOG_OR_INSTANCE, --policy, --nodes and --seed may be repeated: each is simulated with each, spread over the
    processors. The results are kept in the folder of --results, so that a sweep that was interrupted goes on where it
    was.
    """
    from optplan.lab.cluster.bounding import tell_least
    from optplan.lab.cluster.policies.naming import budget_gpus
    from optplan.lab.cluster.world import World
    from optplan.lab.pages import build_cluster_page
    from optplan.lab.sweeps import Cell

    given = {name: value for name, value in fields.items() if value is not None}
    given |= given.pop("interruptions", {}) | given.pop("stragglers", {})
    world = World.parse({name: given.pop(name) for name in World.model_fields if name in given})
    with TemporaryDirectory() as scratch:
        cells = [
            Cell(policy=policy, nodes=count, seed=seed, world=world, **given | jobs)
            for jobs, policy, count, seed in product(
                [_find_jobs(each, fields["profiles"], results or Path(scratch)) for each in source],
                policies,
                nodes or (None,),
                seeds or (0,),
            )
        ]
        if len(cells) > 1 or results is not None:
            return _sweep(cells, outputs, results, processes, engine)
        with Progress("simulating"):
            outcome, data = cells[0].run()
            data |= tell_least(outcome, world)
        read = _read_again(cells[0]) if "--report" in outputs else None

    outputs.deliver(data, lambda: _show(outcome, data))
    name = Path(source[0].place).stem
    outputs.save_page(
        "--report",
        lambda: build_cluster_page(outcome, name, data, budget_gpus=budget_gpus(cells[0].policy), given=read),
    )
    return outputs.exit_code(0 if data["completed"] else _NOTHING_DONE)


def _read_again(cell: Cell) -> tuple[BoaInstance, JobTrace] | None:
    """Return the instance and the jobs of a cell as they were given; None where profiles say what is true of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whatever there is to say was said when they were read first
        return None if cell.profiles is not None else cell.read()


def _find_jobs(source: JobSource, profiles: Path | None, folder: Path) -> dict[str, Any]:
    """Return the fields of a cell that say which jobs it has; what a log comes to is written into a folder."""
    gpu = source.log["gpu_type"]
    found = {"workload": source.place, "profiles": profiles, "gpu": gpu}
    found |= {"instance": source.instance, "draw_jobs": source.jobs, "draw_span_s": source.span_s}
    if profiles is not None and source.is_log:
        raise UsageError("--from: a log says how its jobs ran; leave it out, or --profiles")
    if profiles is None:
        source.check(taken={"gpu_type"})
    if source.is_log:
        folder.mkdir(parents=True, exist_ok=True)
        found["workload"], found["instance"] = source.import_log(folder)
    return {
        name: str(value) if isinstance(value, Path) else value for name, value in found.items() if value is not None
    }


def _sweep(cells: list[Cell], outputs: Outputs, results: Path | None, processes: int | None, engine: str) -> int:
    from optplan.lab import sweeps
    from optplan.lab.pages import compare_simulations

    if results is None:
        raise UsageError(f"there are {len(cells)} simulations; name a folder for their results (--results)")
    if "--report" in outputs:
        raise UsageError("--report: draws one simulation; run one alone, without --results")
    with Progress("simulating") as progress:
        rows = sweeps.run(cells, results, processes, engine=engine, on_event=progress.listen)
    outputs.deliver(rows, lambda: [compare_simulations(rows)])
    return outputs.exit_code(0 if any(row["completed"] for row in rows) else _NOTHING_DONE)


def _show(outcome: Outcome, data: dict[str, Any]) -> list[Shown]:
    from optplan.lab.pages import list_applications, list_facts, list_least, say_problems
    from optplan.reporting.tables import fact_table, plain_text

    cost = [] if data["cost_usd"] is None else [("cost of the nodes", f"${data['cost_usd']:,.2f}")]
    parts: list[Shown] = [fact_table([*list_facts(outcome), *list_least(data), *cost]), "", list_applications(outcome)]
    for name, by_word in data["not_measured"].items():
        told = "; ".join(f"{word}: {len(spreads)}" for word, spreads in by_word.items())
        parts.append(plain_text(f"{name}: placements that were not measured are {told}"))
    if data["arrivals"]:
        parts.append(plain_text(data["arrivals"]))
    problems = say_problems(outcome)
    if problems:
        parts += ["", plain_text("jobs that were not completed", "bold"), *map(plain_text, problems)]
    return parts
