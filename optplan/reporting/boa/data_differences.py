"""What differs between the data of two BOA instances: settings, GPU types, and what is given about each class."""

from __future__ import annotations

import numpy as np

from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.reporting.boa.breakdown import load_gpus
from optplan.reporting.boa.explanations import describe_widths
from optplan.reporting.differences import (
    COUNT,
    GPUS,
    HOURS,
    PER_HOUR,
    SECONDS,
    Difference,
    Fact,
    merge_names,
    pair_facts,
    pair_presence,
    unit_words,
)
from optplan.reporting.phrases import ROUNDING
from optplan.schema import IntArray

_SETTINGS, _WORKLOAD = "settings", "workload"


def compare_settings(a: BoaInstance, b: BoaInstance) -> list[Difference]:
    """List problem, kind of plan, budget, and what all classes together ask for."""
    return pair_facts(_settings(a), _settings(b))


def compare_gpu_types(a: BoaInstance, b: BoaInstance) -> list[Difference]:
    """List prices, quotas, starts of nodes and interruptions of the GPU types."""
    rows = []
    for name in merge_names(a.gpu_types, b.gpu_types):
        in_a, in_b = name in a.gpu_types, name in b.gpu_types
        if in_a and in_b:
            rows += pair_facts(_type_facts(name, a.gpu_types[name]), _type_facts(name, b.gpu_types[name]))
        else:
            rows.append(pair_presence(name, "GPU type", f"gpu_types.{name}", in_a=in_a, in_b=in_b))
    return rows


def compare_class(a: BoaInstance, b: BoaInstance, name: str) -> list[Difference]:
    """List what is given about a class that both have; of sizes and speedups by epoch the largest difference."""
    class_a, class_b = a.classes[name], b.classes[name]
    types = merge_names(class_a.speedup, class_b.speedup)
    rows = pair_facts(_job_facts(name, class_a), _job_facts(name, class_b))
    rows += _compare_epoch_sizes(name, class_a, class_b)
    rows += _compare_pauses(name, class_a, class_b)
    for gpu_type in types:
        rows += _compare_speedup(a, b, name, gpu_type, suffix=f" on {gpu_type}" if len(types) > 1 else "")
    return rows


def price_fact(gpu_type: str, usd_per_hour: float) -> Fact:
    """State a GPU type's price."""
    return Fact(gpu_type, "price an hour", f"gpu_types.{gpu_type}.price_usd_per_hour", usd_per_hour, "usd/hour")


def rate_fact(name: str, rate_per_hour: float) -> Fact:
    """State a class's arrival rate."""
    return Fact(name, "jobs an hour", f"classes.{name}.arrival_rate_per_hour", rate_per_hour, PER_HOUR)


def _settings(instance: BoaInstance) -> list[Fact]:
    facts = [
        Fact(_SETTINGS, "problem", "problem", instance.problem.value),
        Fact(_SETTINGS, "kind of plan", "policy", instance.policy.value),
    ]
    budget = instance.budget
    if budget is not None:
        unit = instance.budget_unit
        facts.append(Fact(_SETTINGS, f"budget in {unit_words(unit)}", "budget", instance.budget_amount(), unit.value))
        if budget.unit is not unit:
            facts.append(
                Fact(_SETTINGS, f"budget in {unit_words(budget.unit)}", "budget", budget.value, budget.unit.value)
            )
    return [
        *facts,
        Fact(_WORKLOAD, "jobs an hour", "total_rate_per_hour", instance.total_rate_per_hour, PER_HOUR),
        Fact(_WORKLOAD, "load in GPUs", "load_gpus", load_gpus(instance), GPUS),
    ]


def _type_facts(name: str, gpu_type: GpuType) -> list[Fact]:
    path = f"gpu_types.{name}"
    facts = [] if gpu_type.price_usd_per_hour is None else [price_fact(name, gpu_type.price_usd_per_hour)]
    texts = (("source of the price", "price_source"), ("date of the price", "price_date"))
    facts += [
        Fact(name, what, f"{path}.{part}", getattr(gpu_type, part)) for what, part in texts if getattr(gpu_type, part)
    ]
    if gpu_type.quota_gpus is not None:
        facts.append(Fact(name, "quota in GPUs", f"{path}.quota_gpus", gpu_type.quota_gpus, GPUS))
    if gpu_type.start_s is not None:
        facts.append(Fact(name, "start of a node", f"{path}.start_s", gpu_type.start_s, SECONDS))
    spot = gpu_type.spot
    if spot is not None:
        path = f"{path}.spot"
        rate = spot.interruptions_per_gpu_hour
        facts += [
            Fact(name, "interruptions an hour of a GPU", f"{path}.interruptions_per_gpu_hour", rate, PER_HOUR),
            Fact(name, "restart", f"{path}.restart_s", spot.restart_s, SECONDS),
            Fact(name, "work lost", f"{path}.lost_work_s", spot.lost_work_s, SECONDS),
            Fact(name, "restart is billed", f"{path}.restart_billed", "yes" if spot.restart_billed else "no"),
        ]
    return facts


def _job_facts(name: str, job_class: JobClass) -> list[Fact]:
    path, due_s, floor = f"classes.{name}", job_class.most_mean_jct_s, job_class.least_mean_gpus
    return [
        rate_fact(name, job_class.arrival_rate_per_hour),
        Fact(name, "weight", f"{path}.weight", job_class.weight, COUNT),
        *([] if due_s is None else [Fact(name, "due date", f"{path}.most_mean_jct_s", due_s, SECONDS)]),
        *([] if floor is None else [Fact(name, "floor", f"{path}.least_mean_gpus", floor, GPUS)]),
        Fact(name, "epochs", f"{path}.num_epochs", job_class.num_epochs, COUNT),
        Fact(name, "sizes measured on GPUs", f"{path}.reference_width", job_class.reference_width, COUNT),
        Fact(name, "time on one GPU", f"{path}.size_gpu_hours", job_class.size_gpu_hours, HOURS),
    ]


def _compare_pauses(name: str, a: JobClass, b: JobClass) -> list[Difference]:
    """List pauses; those of single GPU types where one of the two gives them apart."""
    path = f"classes.{name}"
    figures = [("pause for rescaling", "rescale_s", a.rescale_s, b.rescale_s)]
    for gpu_type in merge_names(a.rescale_s_on, b.rescale_s_on):
        seconds = (a.rescale_s_of(gpu_type), b.rescale_s_of(gpu_type))
        figures.append((f"pause on {gpu_type}", f"rescale_s_on.{gpu_type}", *seconds))
    if a.type_change_s or b.type_change_s:
        figures.append(("more to change GPU type", "type_change_s", a.type_change_s, b.type_change_s))
    for left in merge_names(a.type_change_s_from, b.type_change_s_from):
        given = (one.type_change_s_from.get(left, {}) for one in (a, b))
        for entered in merge_names(*given):
            seconds = (a.type_change_s_of(left, entered), b.type_change_s_of(left, entered))
            figures.append((f"more from {left} to {entered}", f"type_change_s_from.{left}.{entered}", *seconds))
    return [Difference(name, what, f"{path}.{part}", SECONDS, *seconds) for what, part, *seconds in figures]


def _compare_epoch_sizes(name: str, a: JobClass, b: JobClass) -> list[Difference]:
    """Return the epoch whose size differs most, unless all differ alike: then the whole job's size says it."""
    sizes_a, sizes_b = a.epoch_size_gpu_hours, b.epoch_size_gpu_hours
    if sizes_a.size != sizes_b.size or sizes_a.size == 1:
        return []
    ratio = sizes_b / sizes_a
    if np.ptp(ratio) <= ROUNDING * ratio.max():
        return []
    epoch = int(np.abs(ratio - 1.0).argmax())
    path = f"classes.{name}.epoch_size_gpu_hours[{epoch + 1}]"
    what = f"time on one GPU, most in epoch {epoch + 1}"
    return [Difference(name, what, path, HOURS, float(sizes_a[epoch]), float(sizes_b[epoch]))]


def _compare_speedup(a: BoaInstance, b: BoaInstance, name: str, gpu_type: str, *, suffix: str) -> list[Difference]:
    """Compare a class's widths and speeds on a GPU type; of the speeds, where they differ most."""
    path = f"classes.{name}.speedup.{gpu_type}"
    curve_a, curve_b = (instance.classes[name].speedup.get(gpu_type) for instance in (a, b))
    if curve_a is None or curve_b is None:
        forms = [None if curve is None else curve.form for curve in (curve_a, curve_b)]
        return [Difference(name, f"speedup{suffix}", path, "", *forms)]
    widths_a, widths_b = a.allowed_widths(name, gpu_type), b.allowed_widths(name, gpu_type)
    allowed = _say_widths(widths_a, widths_b)
    rows = [
        Difference(name, f"form of the speedup{suffix}", f"{path}.form", "", curve_a.form, curve_b.form),
        Difference(name, f"allowed widths{suffix}", f"classes.{name}.widths.{gpu_type}", "", *allowed),
    ]
    widths = np.intersect1d(widths_a, widths_b)
    if widths.size == 0:
        return rows
    speeds_a, speeds_b = curve_a.at(widths), curve_b.at(widths)
    if 1 not in (len(speeds_a), len(speeds_b)) and len(speeds_a) != len(speeds_b):
        told = (f"by {len(speeds)} epochs" for speeds in (speeds_a, speeds_b))
        return [*rows, Difference(name, f"speedup{suffix}", path, "", *told)]
    speeds_a, speeds_b = np.broadcast_arrays(speeds_a, speeds_b)
    ratio = np.abs(speeds_b / speeds_a - 1.0)
    row, column = np.unravel_index(int(ratio.argmax()), ratio.shape)
    epoch = f" in epoch {row + 1}" if len(speeds_a) > 1 else ""
    place = f"{path}[{row + 1}][{widths[column]}]" if epoch else f"{path}[{widths[column]}]"
    width = f"{widths[column]} GPU{'' if widths[column] == 1 else 's'}"
    what = f"speedup{suffix}, most at {width}{epoch}"
    return [*rows, Difference(name, what, place, COUNT, float(speeds_a[row, column]), float(speeds_b[row, column]))]


def _say_widths(a: IntArray, b: IntArray) -> tuple[str, str]:
    """Describe allowed widths; two lists that differ never read alike."""
    told = [describe_widths(widths) if widths.size else "none" for widths in (a, b)]
    if told[0] == told[1] and not np.array_equal(a, b):
        told = [", ".join(str(width) for width in widths.tolist()) for widths in (a, b)]
    return told[0], told[1]
