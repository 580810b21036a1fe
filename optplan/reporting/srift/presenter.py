"""What a terminal and a page show of training jobs and the VMs that train them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from optplan.contracts import Instance, Result, Solution
from optplan.errors import UsageError
from optplan.formulations.srift.data.bandwidth import LatencyBandwidth
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmType
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.formulations.srift.planning import SriftPlan, build_plan
from optplan.reporting.pages import Page, ReportWriter
from optplan.reporting.phrases import NOTHING, PROOF_NAMES, format_seconds, format_share, relative_difference
from optplan.reporting.srift import words
from optplan.reporting.srift.words import (
    describe_job,
    describe_limits,
    format_amount,
    format_cost,
    format_count,
    format_relaxation,
    format_short,
    frontier_limit,
    name_fleet,
    name_objective,
    require_fleet,
    require_job,
    say_answer,
    say_how_good,
)
from optplan.reporting.standing import add_trust, name_status
from optplan.reporting.tables import add_row, fact_table, new_table, plain_text
from optplan.units import format_duration

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import RenderableType

#: Columns of the table of VMs on offer: a heading, and whether it is a number.
OFFER_COLUMNS = (
    ("VM", False),
    ("GPUs", False),
    ("price an hour", True),
    ("billing", False),
    ("available", True),
    ("running", True),
    ("network", True),
    ("samples on a VM", False),
)
#: Columns of the table of a fleet.
FLEET_COLUMNS = (
    ("VM", False),
    ("VMs", True),
    ("to start", True),
    ("ranks", False),
    ("samples on a VM", True),
    ("on a GPU", True),
    ("forward", True),
    ("backward", True),
    ("waits", True),
    ("cost", True),
)
_FLEET = "fleet"
#: Columns of the table of several solvers.
COMPARISON_COLUMNS = (
    ("solver", False),
    ("cost", True),
    ("time", True),
    ("difference", True),
    (_FLEET, False),
    ("gap", True),
    ("proof", False),
    ("solved in", True),
)


def present_instance(instance: Instance) -> list[RenderableType]:
    """Say what an instance asks for, and which VMs are on offer."""
    job = require_job(instance)
    description = [plain_text(job.description), plain_text("")] if job.description else []
    table = new_table(*OFFER_COLUMNS)
    for row in list_offers(job):
        add_row(table, *row)
    return [*description, fact_table(list_facts(job)), plain_text(""), table]


def present_result(instance: Instance, result: Result[Solution]) -> list[RenderableType]:
    """Say what was found, how good it is, and what each VM does."""
    job = require_job(instance)
    parts: list[RenderableType] = [
        plain_text(add_trust(say_answer(job, result), result), "bold"),
        plain_text(say_how_good(job, result)),
        "",
        fact_table(list_result_facts(job, result)),
    ]
    parts += [plain_text(f"note: {warning}") for warning in result.warnings]
    if result.solution is not None:
        table = new_table(*FLEET_COLUMNS)
        for row in list_fleet(job, plan_of(job, result)):
            add_row(table, *row)
        parts += ["", table]
    return parts


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[RenderableType]:
    """Set the results of several solvers side by side, ours first; fleets, which are long, stand below."""
    require_job(instance)
    fleet = [name for name, _ in COMPARISON_COLUMNS].index(_FLEET)
    table = new_table(*(column for column in COMPARISON_COLUMNS if column[0] != _FLEET))
    rows = compare_results(results)
    for row in rows:
        add_row(table, *row[:fleet], *row[fleet + 1 :])
    fleets = [(row[0], row[fleet]) for row in rows if row[fleet] != NOTHING]
    return [table, "", fact_table([*fleets, *list_notes(results)])]


def name_plan(instance: Instance, solution: Solution) -> str:  # noqa: ARG001 - what presenters are asked with
    """Say in a few words what a plan decides: ``4 p3.8xlarge@1024 + 8 g3.8xlarge@128``."""
    return name_fleet(require_fleet(solution))


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:
    """Write an amount of the frontier's limit with its unit; without a name, of the usual one."""
    return format_amount(limit or frontier_limit(require_job(instance)), amount)


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit."""
    return words.format_objective(require_job(instance), objective)


def draw_plan(instance: Instance, result: Result[Solution]) -> Figure:
    """Draw one iteration of the fleet, with its overlaps.

    Raises
    ------
    UsageError
        When the result has no solution.
    """
    from optplan.reporting.srift.iteration_figures import draw_iteration

    if result.solution is None:
        raise UsageError(f"the result has no solution to draw (status {result.status})")
    return draw_iteration(require_job(instance), require_fleet(result.solution))


def _build_page(instance: Instance, result: Result[Solution], **shown: Any) -> Page:  # noqa: ANN401 - passed on
    """Gather the report of a result, with an iteration's timeline and the frontier of fleets."""
    from optplan.reporting.srift.report import build_page

    return build_page(require_job(instance), result, **shown)


write_report = ReportWriter("fleets", _build_page)


def plan_of(instance: SriftInstance, result: Result[Solution]) -> SriftPlan:
    """Return the plan of a result that has a solution."""
    return build_plan(instance, cast(Result[SriftSolution], result))


def list_facts(instance: SriftInstance) -> list[tuple[str, str]]:
    """List what an instance says, by name."""
    rules = [] if instance.mixed else ["VMs of one type only"]
    rules += ["one batch for all VMs of a type"] if instance.one_batch_per_type else ["any batches for VMs of a type"]
    facts = [
        ("job", describe_job(instance)),
        ("asked", f"least {name_objective(instance)}, {describe_limits(instance)}"),
        ("fleets", "; ".join(rules)),
        ("bandwidth", _describe_bandwidth(instance)),
    ]
    if instance.bucket_bytes is not None:
        facts.append(("buckets", f"gradients are exchanged {instance.bucket_bytes / 1e6:g} MB at a time, at least"))
    if instance.launch_s:
        paid = "paid" if instance.launch_billed else "not paid"
        facts.append(("new VMs", f"train after {format_duration(instance.launch_s)}, which are {paid}"))
    losses = instance.interruptions
    if losses is not None:
        facts.append(
            (
                "interruptions",
                f"a checkpoint every {format_duration(losses.checkpoint_every_s)} takes "
                f"{format_duration(losses.checkpoint_s)}; a restart takes {format_duration(losses.restart_s)}, which "
                f"{'is' if losses.restart_billed else 'is not'} paid",
            )
        )
    if instance.job.source:
        facts.append(("source of the profile", instance.job.source))
    return facts


def list_offers(instance: SriftInstance) -> list[tuple[str, ...]]:
    """Write the VMs on offer as rows of :data:`OFFER_COLUMNS`."""
    return [_write_offer(instance, name, vm) for name, vm in instance.types.items()]


def list_result_facts(instance: SriftInstance, result: Result[Solution]) -> list[tuple[str, str]]:
    """List what a result says, by name."""
    measures = result.measures
    facts = [("status", f"{name_status(result)[0]} (stopped: {result.termination.value})")]
    if result.objective is not None:
        kind = "expected" if instance.interruptions is not None else "predicted"
        facts += [
            (f"{kind} time", f"{format_duration(measures['time_s'])} ({measures['time_s']:.6g} s)"),
            (f"{kind} cost", f"{format_cost(measures['cost_usd'])} ({measures['cost_usd']:.6g} usd)"),
            *list_parts(measures),
            (
                "throughput",
                f"{format_count(measures['samples_per_s'])} samples a second on {measures['ranks']:,.0f} GPUs",
            ),
        ]
    relaxations = result.infeasibility.relaxations if result.infeasibility is not None else ()
    facts += [("would help", f"a {one.limit.replace('_', ' ')} of {format_relaxation(one)}") for one in relaxations]
    if result.bound is not None:
        gap = "" if result.gap is None else f"gap {format_share(result.gap)}; "
        bound = words.format_objective(instance, result.bound)
        facts.append(("bound", f"{bound} ({gap}{result.bound_proof.value})"))
    facts.append(("solver", f"{result.solver} (engine {result.engine} {result.engine_version}, seed {result.seed})"))
    verified = f", verified in {format_seconds(result.verify_seconds)}" if result.verify_seconds else ", not verified"
    facts.append(("time", f"{format_seconds(result.solve_seconds)}{verified}"))
    return facts


def list_parts(measures: dict[str, float]) -> list[tuple[str, str]]:
    """List what an iteration is made of, and what else takes time."""
    forward, backward, exchange = (measures[f"{part}_s"] for part in ("forward", "backward", "exchange"))
    longer = "backward" if backward >= exchange else "exchange"
    parts = (
        f"forward {format_short(forward)}, then backward {format_short(backward)} and exchange "
        f"{format_short(exchange)} together; the {longer} ends last"
    )
    facts = [("an iteration", f"{format_short(measures['iteration_s'])} ({parts})")]
    if measures["launch_s"]:
        facts.append(("launch", format_duration(measures["launch_s"])))
    lost = measures["training_s"] - measures["work_s"]
    if lost > 0:
        facts.append(("checkpoints and losses", f"{format_duration(lost)} on average"))
    return facts


def list_fleet(instance: SriftInstance, plan: SriftPlan) -> list[tuple[str, ...]]:
    """Write the VMs of a plan as rows of :data:`FLEET_COLUMNS`."""
    model = IterationModel(instance)
    computed = plan.expected["forward_s"] + plan.expected["backward_s"]
    rows: list[tuple[str, ...]] = []
    for vms in plan.fleet:
        forward, backward = model.passes_s(vms.type, vms.batch_per_vm)
        ranks = f"{vms.first_rank} to {vms.last_rank}" if vms.last_rank > vms.first_rank else str(vms.first_rank)
        rows.append(
            (
                vms.type,
                f"{vms.count:,}",
                f"{vms.started:,}",
                ranks,
                f"{vms.batch_per_vm:,}",
                f"{vms.batch_per_rank:,}",
                format_short(forward),
                format_short(backward),
                format_share(max(0.0, 1.0 - (forward + backward) / computed)),
                format_cost(vms.cost_usd),
            )
        )
    return rows


def compare_results(results: Sequence[Result[Solution]]) -> list[tuple[str, ...]]:
    """Write results as rows of :data:`COMPARISON_COLUMNS`; the first is what the others are compared with."""
    reference = results[0].objective
    rows: list[tuple[str, ...]] = []
    for number, result in enumerate(results):
        above = relative_difference(result.objective, reference)
        found = result.solution is not None
        rows.append(
            (
                result.solver,
                format_cost(result.measures["cost_usd"]) if found else result.status.value,
                format_duration(result.measures["time_s"]) if found else NOTHING,
                NOTHING if number == 0 or above is None else _say_above(above),
                name_fleet(require_fleet(result.solution)) if found else NOTHING,
                NOTHING if result.gap is None else format_share(result.gap),
                PROOF_NAMES[result.bound_proof],
                format_seconds(result.solve_seconds),
            )
        )
    return rows


def list_notes(results: Sequence[Result[Solution]]) -> list[tuple[str, str]]:
    """List what rivals that found no fleet say of it, by solver, such as by how much theirs breaks a limit.

    What the first result warns of, too, is not said again.
    """
    return [
        (rival.solver, said)
        for rival in results[1:]
        if rival.solution is None
        for said in (*rival.warnings, *([rival.infeasibility.reason] if rival.infeasibility is not None else ()))
        if said not in results[0].warnings
    ]


def _write_offer(instance: SriftInstance, name: str, vm: VmType) -> tuple[str, ...]:
    batches = instance.batches_of[name]
    choices = (
        ", ".join(f"{batch:,}" for batch in batches)
        if len(batches) <= 6
        else (f"{batches[0]:,}, {batches[1]:,} ... {batches[-1]:,} ({len(batches)} choices)")
    )
    return (
        name,
        f"{vm.gpus} {vm.gpu}",
        format_cost(vm.price_usd_per_hour),
        "spot" if vm.spot else "on demand",
        "not known" if vm.available is None else f"{vm.available:,}",
        f"{vm.running:,}",
        f"{vm.network_gbit_per_s:g} Gbit/s",
        choices or "none",
    )


def _describe_bandwidth(instance: SriftInstance) -> str:
    bandwidth = instance.bandwidth
    if isinstance(bandwidth, LatencyBandwidth):
        said = f"the VMs' networks, {format_short(bandwidth.step_latency_s)} for a step of an all-reduce"
    else:
        said = f"tables for {', '.join(bandwidth.tables)}"
    return f"{said} ({bandwidth.source})" if bandwidth.source else said


def _say_above(above: float) -> str:
    if abs(above) < 1e-9:
        return "the same"
    return f"{format_share(abs(above))} {'more' if above > 0 else 'less'}"
