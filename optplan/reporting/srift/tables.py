"""What is listed of training jobs, the VMs on offer and fleets, and the picture of an iteration of a fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from optplan.contracts import Result, Solution
from optplan.formulations.srift.data.bandwidth import LatencyBandwidth
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup, VmType, write_fleet
from optplan.formulations.srift.laws.iteration import Iteration, IterationModel, Transfer
from optplan.formulations.srift.planning import PlannedVms, SriftPlan, build_plan
from optplan.reporting import style
from optplan.reporting.pages import Card
from optplan.reporting.phrases import NOTHING, format_cost, format_share
from optplan.reporting.sections import compare_objectives
from optplan.reporting.srift import words
from optplan.reporting.srift.words import format_short
from optplan.reporting.tables import Column, Columns, Table, numbers, numeric, tabulate
from optplan.units import format_duration

_COMPARED = numbers("cost", "time", "difference")


def plan_of(instance: SriftInstance, result: Result[Solution]) -> SriftPlan:
    """Return the plan of a result that has a solution."""
    return build_plan(instance, cast(Result[SriftSolution], result))


def list_facts(instance: SriftInstance) -> list[tuple[str, str]]:
    """List what an instance says, by name."""
    rules = [] if instance.mixed else ["VMs of one type only"]
    rules += ["one batch for all VMs of a type"] if instance.one_batch_per_type else ["any batches for VMs of a type"]
    facts = [
        ("job", words.describe_job(instance)),
        ("asked", f"least {words.name_objective(instance)}, {words.describe_limits(instance)}"),
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


def list_offers(instance: SriftInstance) -> Table:
    """List the VMs on offer."""
    columns: Columns[tuple[str, VmType]] = {
        Column("VM"): lambda offer: offer[0],
        Column("GPUs"): lambda offer: f"{offer[1].gpus} {offer[1].gpu}",
        numeric("price an hour"): lambda offer: format_cost(offer[1].price_usd_per_hour),
        Column("billing"): lambda offer: "spot" if offer[1].spot else "on demand",
        numeric("available"): lambda offer: "not known" if offer[1].available is None else f"{offer[1].available:,}",
        numeric("running"): lambda offer: f"{offer[1].running:,}",
        numeric("network"): lambda offer: f"{offer[1].network_gbit_per_s:g} Gbit/s",
        Column("samples on a VM"): lambda offer: _list_batches(instance.batches_of[offer[0]]),
    }
    return tabulate("VMs on offer", columns, instance.types.items())


def list_parts(measures: dict[str, float]) -> list[Card]:
    """List what an iteration is made of, and what else takes time."""
    forward, backward, exchange = (measures[f"{part}_s"] for part in ("forward", "backward", "exchange"))
    longer = "backward" if backward >= exchange else "exchange"
    parts = (
        f"forward {format_short(forward)}, then backward {format_short(backward)} and exchange "
        f"{format_short(exchange)} together; the {longer} ends last"
    )
    cards = [Card("an iteration", format_short(measures["iteration_s"]), parts)]
    if measures["launch_s"]:
        cards.append(Card("launch", format_duration(measures["launch_s"])))
    lost = measures["training_s"] - measures["work_s"]
    if lost > 0:
        cards.append(Card("checkpoints and losses", format_duration(lost), "on average"))
    return cards


def list_fleet(instance: SriftInstance, plan: SriftPlan) -> Table:
    """List the VMs of a plan."""
    model = IterationModel(instance)
    computed = plan.expected["forward_s"] + plan.expected["backward_s"]

    def passes_s(vms: PlannedVms) -> tuple[float, float]:
        return model.passes_s(vms.type, vms.batch_per_vm)

    columns: Columns[PlannedVms] = {
        Column("VM"): lambda vms: vms.type,
        numeric("VMs"): lambda vms: f"{vms.count:,}",
        numeric("to start"): lambda vms: f"{vms.started:,}",
        Column("ranks"): lambda vms: " to ".join(dict.fromkeys((str(vms.first_rank), str(vms.last_rank)))),
        numeric("samples on a VM"): lambda vms: f"{vms.batch_per_vm:,}",
        numeric("on a GPU"): lambda vms: f"{vms.batch_per_rank:,}",
        numeric("forward"): lambda vms: format_short(passes_s(vms)[0]),
        numeric("backward"): lambda vms: format_short(passes_s(vms)[1]),
        numeric("waits"): lambda vms: format_share(max(0.0, 1.0 - sum(passes_s(vms)) / computed)),
        numeric("cost"): lambda vms: format_cost(vms.cost_usd),
    }
    return tabulate("The fleet", columns, plan.fleet)


def compare_results(results: Sequence[Result[Solution]]) -> Table:
    """Set results side by side; the first is what the others are compared with."""

    def write(result: Result[Solution], difference: str) -> tuple[str, ...]:
        if result.solution is None:
            return result.status.value, NOTHING, difference
        return format_cost(result.measures["cost_usd"]), format_duration(result.measures["time_s"]), difference

    return compare_objectives(results, _COMPARED, write)


def list_fleets(results: Sequence[Result[Solution]]) -> list[tuple[str, str]]:
    """List fleets by solver, and what rivals without one say of that, unless the first result warns of it, too."""
    fleets = [
        (one.solver, write_fleet(words.require_fleet(one.solution).groups))
        for one in results
        if one.solution is not None
    ]
    return fleets + [
        (rival.solver, said)
        for rival in results[1:]
        if rival.solution is None
        for said in (*rival.warnings, *([rival.infeasibility.reason] if rival.infeasibility is not None else ()))
        if said not in results[0].warnings
    ]


def _list_batches(batches: Sequence[int]) -> str:
    if len(batches) <= 6:
        return ", ".join(f"{batch:,}" for batch in batches) or "none"
    return f"{batches[0]:,}, {batches[1]:,} ... {batches[-1]:,} ({len(batches)} choices)"


def _describe_bandwidth(instance: SriftInstance) -> str:
    bandwidth = instance.bandwidth
    if isinstance(bandwidth, LatencyBandwidth):
        said = f"the VMs' networks, {format_short(bandwidth.step_latency_s)} for a step of an all-reduce"
    else:
        said = f"tables for {', '.join(bandwidth.tables)}"
    return f"{said} ({bandwidth.source})" if bandwidth.source else said


#: Below so many seconds an axis counts milliseconds.
_SHORT_S = 1.0
#: Height of a row of compute in pixels; of the rest of the figure; and the least and most rows that transfers take up.
_ROW_PIXELS, _REST_PIXELS = 34, 140
_LEAST_ROWS, _MOST_ROWS = 1.0, 8.0
#: Rows that one transfer takes up where there are few.
_ROWS_EACH = 0.5
#: How much of its row a bar fills, and of its lane a transfer.
_FILLED = 0.7
_LANE_FILLED = 0.85
#: Rows below all bars, for what the iteration takes.
_FOOT = 1.0
#: By what bars show, their colour and that of their border; without a border they have none.
_LOOKS = {
    "forward": (style.SKY, ""),
    "backward": (style.BLUE, ""),
    "waits for the slowest": (style.SHADE, style.GREY),
    "exchanged meanwhile": (style.GREEN, ""),
    "exchanged after the backward pass": (style.VERMILLION, style.VERMILLION),
}


def draw_iteration(instance: SriftInstance, solution: SriftSolution) -> style.Figure:
    """Draw an iteration of a fleet over time since it began: passes of each group's VMs, each gradient's way."""
    # What is exchanged after the backward pass of the slowest VM of all, as is expected of so many, is what the
    # exchange adds.
    model, groups = IterationModel(instance), solution.groups
    found, transfers = model.trace(groups)
    scale = style.TimeScale("milliseconds", 1e-3) if found.total_s < _SHORT_S else style.time_scale(found.total_s)
    lanes = min(max(_ROWS_EACH * len(transfers), _LEAST_ROWS), _MOST_ROWS) if transfers else 0.0
    figure = style.new_figure(height=round(_REST_PIXELS + _ROW_PIXELS * (len(groups) + 1 + _FOOT + lanes)), top=36)
    bars = [*_list_passes(model, groups, found), *_list_transfers(found, transfers, lanes)]
    for what, (color, border) in _LOOKS.items():
        marker = {"color": color, "line": {"color": border or color, "width": 1 if border else 0}}
        style.add_blocks(figure, what, [bar for shown, bar in bars if shown == what], marker, scale.seconds)
    names = {len(groups) - row + 0.5: style.shorten_name(write_fleet([group])) for row, group in enumerate(groups)}
    names[0.5] = "slowest VM, expected"
    if transfers:
        what = "gradient" if instance.bucket_bytes is None else "bucket"
        names[-lanes / 2.0] = f"{len(transfers):,} {what}{'s' if len(transfers) > 1 else ''}"
    end = found.total_s / scale.seconds
    figure.add_vline(x=end, line={"color": style.GREY, "dash": "dot", "width": 1})
    label = {"x": end, "y": -lanes - _FOOT / 2.0, "xanchor": "right", "yanchor": "middle", "showarrow": False}
    figure.add_annotation(**label, text=f"an iteration: {format_short(found.total_s)}", font={"color": style.GREY})
    across = {"title_text": f"time since its start ({scale.unit})", "range": [0.0, 1.03 * end]}
    rows = style.place_names(names, -lanes - _FOOT, len(groups) + 1.1)
    return style.finish(figure, across, rows, barmode="overlay")


def _list_passes(
    model: IterationModel, groups: Sequence[VmGroup], found: Iteration
) -> Iterator[tuple[str, style.Block]]:
    """Yield what bars of passes show, and the bars: of each group, and in the last row of the slowest VM."""
    rows = [(write_fleet([group]), "each VM as profiled", *model.passes_s(group.type, group.batch)) for group in groups]
    count, computed_s = sum(group.count for group in groups), found.forward_s + found.backward_s
    rows.append((f"slowest of {count:,} VMs", "on average", found.forward_s, found.backward_s))
    for number, (name, how, forward_s, backward_s) in enumerate(rows):
        row, end_s, shown = len(rows) - number - 0.5, forward_s + backward_s, style.escape_text(name)
        said = f"{shown}, {how}<br>forward {format_short(forward_s)}, backward {format_short(backward_s)}"
        yield "forward", style.Block(0.0, forward_s, row, _FILLED, said)
        yield "backward", style.Block(forward_s, end_s, row, _FILLED, said)
        if number < len(groups):
            idle_s = max(0.0, computed_s - end_s)
            said = f"{shown} waits for the slowest VM: {format_short(idle_s)} of {format_short(computed_s)}"
            yield "waits for the slowest", style.Block(end_s, computed_s, row, _FILLED, said)


def _list_transfers(found: Iteration, transfers: Sequence[Transfer], lanes: float) -> Iterator[tuple[str, style.Block]]:
    """Yield what bars of transfers show, and the bars: in a lane for each, split where the backward pass ends."""
    computed_s = found.forward_s + found.backward_s
    for number, transfer in enumerate(transfers):
        each = lanes / len(transfers)
        said = (
            f"{style.escape_text(transfer.label)}, {transfer.gradient_bytes / 1e6:.3g} MB<br>ready after "
            f"{format_short(transfer.start_s)}, exchanged after {format_short(transfer.end_s)}"
        )
        parts = (
            ("exchanged meanwhile", transfer.start_s, min(transfer.end_s, computed_s)),
            ("exchanged after the backward pass", max(transfer.start_s, computed_s), transfer.end_s),
        )
        for what, start_s, end_s in parts:
            if start_s < end_s:
                yield what, style.Block(start_s, end_s, -(number + 0.5) * each, _LANE_FILLED * each, said)
