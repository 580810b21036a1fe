"""What a job may hold: every allowed pair of a GPU type and a width, with all that its costs are made of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from optplan.errors import DataError, DataWarning
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.schema import AMOUNTS, LARGEST_AMOUNT, LEAST_AMOUNT, FloatArray, IntArray
from optplan.speedup import Speedup, TableSpeedup, describe_hull_changes
from optplan.speedup.curves import list_widths
from optplan.units import SECONDS_PER_HOUR

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
    """Refuse a speedup that covers the reference width and is not 1 there, without an error."""
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
    factors = curve.error_factors(np.array([reference], dtype=np.int64), reference)
    if factors is not None and factors[0] != 1.0:
        problem = f"got {factors[0] - 1.0:.6g} at {reference} GPU(s), where the speedup is 1 without an error"
        raise DataError(f"{path}.error", problem, "write 0 there")


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


def warn_of_hulls(curves: Iterable[tuple[str, IntArray, Speedup]]) -> None:
    """Say once which tables, by path with their allowed widths, the continuous problem does not take as they are."""
    changed = []
    for path, widths, curve in curves:
        if isinstance(curve, TableSpeedup):
            table = curve.speedup[..., np.searchsorted(curve.gpus, widths)]
            if not is_concave(widths, table):
                changed.append((path, widths, table))
    if changed:
        path, widths, table = changed[0]
        others = f"; {len(changed) - 1} more tables likewise" if len(changed) > 1 else ""
        warnings.warn(f"{path}: {describe_hull_changes(widths, table)}{others}", DataWarning, stacklevel=2)


def is_concave(widths: IntArray, table: FloatArray) -> bool:
    """Whether a table is non-decreasing and concave as it stands, to a relative 1e-9."""
    slack = 1e-9 * float(table.max())
    rise = np.diff(table, axis=-1)
    slope = rise / np.diff(widths)
    return bool((rise >= -slack).all() and (np.diff(slope, axis=-1) <= slack).all())


@dataclass(frozen=True, eq=False)
class Options:
    """The K pairs of GPU type and width that jobs of a class may hold, by type (``group``, of F), widths increasing."""

    # ``paid`` GPUs are more than held where jobs share no nodes. Interruptions are not in ``speeds``, (E, K) or (1, K),
    # but stretch the time by ``wall``, and holding by ``held``. ``change_h`` (F, K) is on top of ``pause_h``, from
    # other types.

    gpu_types: tuple[str, ...]
    group: IntArray
    widths: IntArray
    paid: FloatArray
    price: FloatArray
    speeds: FloatArray
    wall: FloatArray
    held: FloatArray
    pause_h: FloatArray
    change_h: FloatArray

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """(K,) Names of the pairs: the width, with the type in front where there are several."""
        if len(self.gpu_types) == 1:
            return tuple(map(str, self.widths.tolist()))
        return tuple(f"{name}.{width}" for name, own in self._of_types.items() for width in self.widths[own].tolist())

    @cached_property
    def changes_cost(self) -> bool:
        """Whether it matters which type a job comes from."""
        return len(self.gpu_types) > 1 and bool(self.change_h.any())

    def of_type(self, gpu_type: str) -> slice:
        """Return where the pairs of a type are; empty when the class cannot run on it."""
        return self._of_types.get(gpu_type, slice(self.widths.size, self.widths.size))

    @cached_property
    def _of_types(self) -> dict[str, slice]:
        ends = np.searchsorted(self.group, np.arange(len(self.gpu_types) + 1)).tolist()
        return {name: slice(*pair) for name, pair in zip(self.gpu_types, pairwise(ends), strict=True)}

    def find(self, gpu_types: tuple[str, ...] | None, widths: FloatArray) -> IntArray:
        """Return the positions of pairs (P,), or -1 where one is not allowed; types are None where there is one."""
        if gpu_types is None and len(self.gpu_types) == 1:
            found = np.minimum(self.widths.searchsorted(widths), self.widths.size - 1)
            return np.where(self.widths[found] == widths, found, -1)
        groups = {gpu_type: position for position, gpu_type in enumerate(self.gpu_types)}
        group = np.array([groups.get(gpu_type, -1) for gpu_type in gpu_types] if gpu_types is not None else 0)
        most = int(self.widths.max()) + 1
        found = (self.group * most + self.widths).searchsorted(group * most + widths)
        found = np.minimum(found, self.widths.size - 1)
        allowed = (self.widths[found] == widths) & (self.group[found] == group)
        positions: IntArray = np.where(allowed, found, -1)
        return positions


def list_options(
    job_class: JobClass,
    gpu_types: Mapping[str, GpuType],
    allowed: Mapping[str, IntArray],
    prices: Mapping[str, float],
    pay: Callable[[str, FloatArray], FloatArray],
    *,
    rescaling: bool,
) -> Options:
    """List the options of a class, by the types on which it can run: allowed widths where it finishes.

    ``pay`` says for how many GPUs of a type a job on so many pays.
    """
    finishing = {one: widths[gpu_types[one].finishes(widths)] for one, widths in allowed.items()}
    names = tuple(name for name in gpu_types if name in finishing and finishing[name].size)
    widths = [finishing[name] for name in names]
    scale = 1.0 / SECONDS_PER_HOUR if rescaling else 0.0
    group = np.arange(len(names)).repeat([each.size for each in widths])
    curves = [job_class.speedup[name].at(each) for name, each in zip(names, widths, strict=True)]
    rows = max(map(len, curves))
    wall, held = np.concatenate([gpu_types[one].stretch(each) for one, each in zip(names, widths, strict=True)], axis=1)
    paid = [pay(name, each.astype(float)) for name, each in zip(names, widths, strict=True)]
    pause_h = scale * np.array([job_class.rescale_s_of(name) for name in names])
    change_h = scale * np.array(
        [[0.0 if left == name else job_class.type_change_s_of(left, name) for name in names] for left in names]
    )
    return Options(
        gpu_types=names,
        group=group,
        widths=np.concatenate(widths),
        paid=np.concatenate(paid),
        price=np.array([prices[name] for name in names])[group],
        speeds=np.concatenate([c if len(c) == rows else c.repeat(rows, axis=0) for c in curves], axis=1),
        wall=wall,
        held=held,
        pause_h=pause_h[group],
        change_h=change_h[:, group],
    )
