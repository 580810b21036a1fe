"""Which widths jobs may get, and whether their speedups cover them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from optplan.errors import DataError, DataWarning
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.job_classes import Widths
from optplan.schema import AMOUNTS, LARGEST_AMOUNT, LEAST_AMOUNT, FloatArray, IntArray
from optplan.speedup import Speedup
from optplan.speedup.curves import list_widths

#: Relative tolerance on s(reference width) = 1.
_REFERENCE_SPEEDUP_TOLERANCE = 1e-6


def list_allowed(path: str, rule: Widths | None, curve: Speedup, gpu_type: str, gpus_per_node: int | None) -> IntArray:
    """Return the widths that a rule and a speedup allow, increasing; refuse a rule that leaves none, or has no end."""
    known = curve.known_widths()
    if known is None:
        if rule is None or (rule.only is None and rule.max is None):
            fix = "this speedup covers any width, so say how far to go, as in {max: 64}"
            raise DataError(path, "is missing" if rule is None else "has no upper limit", fix)
        return _keep_steps(path, rule, rule.rule(), gpu_type, gpus_per_node)
    if rule is None:
        return known
    if rule.only is not None:
        missing = np.setdiff1d(rule.only, known)
        if missing.size:
            problem = f"width {missing[0]} has no speedup in the table for {gpu_type}, which has {list_widths(known)}"
            raise DataError(path, problem, "add the measurement or leave the width out")
        return rule.only
    largest = known[-1] if rule.max is None else rule.max
    kept: IntArray = known[(known >= rule.min) & (known <= largest) & (known % rule.multiple_of == 0)]
    kept = _keep_steps(path, rule, kept, gpu_type, gpus_per_node)
    if kept.size == 0:
        problem = f"no width of the table for {gpu_type} fits the rule; the table has {list_widths(known)}"
        raise DataError(path, problem, "widen the rule")
    return kept


def _keep_steps(path: str, rule: Widths, widths: IntArray, gpu_type: str, gpus_per_node: int | None) -> IntArray:
    try:
        return rule.keep(widths, gpus_per_node)
    except ValueError as error:
        raise DataError(path, str(error), f"give gpu_types.{gpu_type}.gpus_per_node") from None


def check_reference(path: str, curve: Speedup, reference: int) -> None:
    """Refuse a speedup that covers the reference width and is not 1 there."""
    known = curve.known_widths()
    if known is not None and reference not in known:
        return
    if known is None and reference == 1:
        return  # formulas have s(1) = 1 by construction
    at_reference = curve.at(np.array([reference], dtype=np.int64))
    wrong = np.flatnonzero(np.abs(at_reference - 1.0) > _REFERENCE_SPEEDUP_TOLERANCE)
    if wrong.size:
        at = f"{reference} GPU{'s' if reference > 1 else ''}"
        got = float(at_reference.ravel()[wrong[0]])
        problem = f"the speedup at {at} is {got!r} in epoch {wrong[0] + 1}; it must be 1, because sizes are times there"
        raise DataError(path, problem, "divide the table by it, or name another reference_width")


def check_curve(path: str, curve: Speedup, widths: IntArray) -> None:
    """Find a width that a curve does not cover, or its speed there, here and not in the middle of a solve."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        speeds = curve.at(widths)
    wrong = np.argwhere(~((speeds >= LEAST_AMOUNT) & (speeds <= LARGEST_AMOUNT)))
    if len(wrong):
        epoch, column = wrong[0].tolist()
        problem = f"gives a speed of {float(speeds[epoch, column])!r} at {widths[column]} GPUs in epoch {epoch + 1}"
        raise DataError(path, f"{problem}; numbers {AMOUNTS} are allowed", "check the units of its parameters")


def check_finishing(path: str, allowed: Mapping[str, IntArray], gpu_types: Mapping[str, GpuType]) -> None:
    """Refuse a class that finishes nowhere, and say which widths are left out because it never finishes on them."""
    endless = []
    for gpu_type, widths in allowed.items():
        never = widths[~gpu_types[gpu_type].finishes(widths)]
        if never.size:
            on = f"{gpu_type} from {never[0]} GPUs on" if never.size < widths.size else f"{gpu_type} at any width"
            endless.append((on, never.size == widths.size))
    if not endless:
        return
    problem = f"jobs never finish on {', '.join(on for on, _ in endless)}: interruptions come faster than restarts"
    if len(endless) == len(allowed) and all(everywhere for _, everywhere in endless):
        fix = "lower interruptions_per_gpu_hour, restart_s or lost_work_s in gpu_types.*.spot, or allow fewer GPUs"
        raise DataError(path, problem, fix)
    warnings.warn(f"{path}: {problem}; these widths are left out", DataWarning, stacklevel=2)


def is_concave(widths: IntArray, table: FloatArray) -> bool:
    """Whether a table is non-decreasing and concave as it stands, to a relative 1e-9."""
    slack = 1e-9 * float(table.max())
    rise = np.diff(table, axis=-1)
    slope = rise / np.diff(widths)
    return bool((rise >= -slack).all() and (np.diff(slope, axis=-1) <= slack).all())
