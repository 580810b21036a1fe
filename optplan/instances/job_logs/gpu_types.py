"""How the GPU types of a log compare: by the classes whose jobs ran on several of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optplan.errors import DataError
from optplan.instances.job_logs.columns import BoolColumn, Jobs
from optplan.instances.job_logs.naming import Classes
from optplan.instances.job_logs.records import LeftOut
from optplan.instances.job_logs.speedups import FoundSpeedup, SpeedupSources
from optplan.quantities import round_shared
from optplan.schema import FloatArray, IntArray
from optplan.speedup import Evidence, Speedup, TableSpeedup
from optplan.speedup.curves import find_weakest
from optplan.speedup.fitting import ERROR_DECIMALS, student_quantile

#: What the GPU type is called where the log does not say it.
UNNAMED_GPU = "gpu"
#: Reasons for leaving something out.
NO_TYPE = "sizes of jobs whose GPU type is not said"
NOT_COMPARED = "sizes of jobs on a GPU type that their class's completed runs do not compare with its others"
#: Factor that an error of a ratio is at most.
_LARGEST_FACTOR = 1000.0


@dataclass(frozen=True)
class TypedSpeedup:
    """The speedup of a class on each GPU type, relative to the reference width on its reference type."""

    reference_type: str
    found: FoundSpeedup  #: On the reference type.
    curves: Mapping[str, Speedup]  #: By type.
    speeds: FloatArray  #: (N,) At which each job ran; NaN where that is not known.
    is_placed: BoolColumn  #: (N,) Whether a job's type has a curve.
    words: str


def list_types(classes: Classes) -> list[str]:
    """List the GPU types of a log, the commonest first; one of them, where it names none."""
    types: Counter[str] = Counter()
    for jobs in classes.values():
        places, counts = np.unique(jobs.gpu_type, return_counts=True)
        types.update(dict(zip(jobs.list_words(places), counts.tolist(), strict=True)))
    types.pop("", None)
    return sorted(types, key=lambda name: (-types[name], name)) or [UNNAMED_GPU]


def find_speedups(
    name: str, jobs: Jobs, sources: SpeedupSources, types: Sequence[str], max_width: int, left_out: LeftOut
) -> TypedSpeedup:
    """Find a class's speedup on the types on which it ran: its own curve, or the reference type's, times a ratio."""
    # The ratio is that of geometric mean sizes of completed runs, its 90 % band Student's; without any, sizes are
    # unknown.
    gpus = jobs.gpus.astype(np.int64)
    if len(types) == 1:
        found = sources.find(name, jobs)
        everywhere = np.ones(len(jobs), dtype=np.bool_)
        return TypedSpeedup(types[0], found, {types[0]: found.curve}, found.at(gpus), everywhere, found.words)
    ran = jobs.run_s > 0.0
    on = {each: jobs.gpu_type == jobs.words[each] for each in types}
    on = {each: which for each, which in on.items() if (which & ran).any()}
    if not on:
        fix = f"leave the class out, or choose the type, as in --gpu {types[0]}"
        raise DataError(f"classes.{name}", f"no run says on which of {', '.join(types)} it was", fix)
    used = {each: which & sources.choose_runs(name, jobs) for each, which in on.items()}
    reference = max(on, key=lambda each: (len(_widths(jobs, used[each])) > 1, used[each].sum()))
    found, here = sources.find(name, jobs[on[reference]]), on[reference]
    speeds, words = np.where(here, found.at(gpus), np.nan), f"on {reference} {found.words}"
    typed = TypedSpeedup(reference, found, {reference: found.curve}, speeds, here, words)
    for each, which in on.items():
        if each != reference:
            typed = _compare(name, jobs, sources, typed, (each, which), used, max_width)
    typed = _add_card(name, sources, typed, types)
    is_said = jobs.gpu_type != jobs.words[""]
    for reason, lost in ((NO_TYPE, ran & ~is_said), (NOT_COMPARED, ran & is_said & ~typed.is_placed)):
        if lost.any():
            left_out.add(reason, wrong=name, count=int(lost.sum()))
    return typed


def _widths(jobs: Jobs, which: BoolColumn) -> list[int]:
    widths: list[int] = np.unique(jobs.gpus[which]).tolist()
    return widths


def _compare(
    name: str,
    jobs: Jobs,
    sources: SpeedupSources,
    typed: TypedSpeedup,
    other: tuple[str, BoolColumn],
    used: Mapping[str, BoolColumn],
    max_width: int,
) -> TypedSpeedup:
    """Add what a class's runs on another type say; nothing where they cannot be compared."""
    gpu_type, there = other
    is_stated = name in sources.measured.throughputs or name in sources.assumed
    has_own = sources.name_fitted(name) != "none" and not is_stated and len(_widths(jobs, used[gpu_type])) > 1
    has_own |= name in sources.cards and name not in sources.measured.throughputs
    own = sources.find(name, jobs[there]) if has_own else typed.found
    at_own = own.at(jobs.gpus.astype(np.int64))
    logs = []
    for which, speeds in ((used[typed.reference_type], typed.speeds), (used[gpu_type], at_own)):
        sizes = (jobs.run_s * speeds)[which]
        logs.append(np.log(sizes[np.isfinite(sizes)]))
    freedom = logs[0].size + logs[1].size - 2
    if not (logs[0].size and logs[1].size and freedom):
        return typed
    deviations = np.concatenate([each - each.mean() for each in logs])
    standard = np.sqrt(deviations @ deviations / freedom * (1.0 / logs[0].size + 1.0 / logs[1].size))
    factor = min(float(np.exp(student_quantile(freedom) * standard)), _LARGEST_FACTOR)
    ratio = float(np.exp(logs[0].mean() - logs[1].mean()))
    said = f"; {gpu_type} is {ratio:.4g} times as fast by {logs[1].size:,} runs, within {factor - 1.0:.1%}"
    return replace(
        typed,
        curves={**typed.curves, gpu_type: _scale(own, ratio, factor, max_width)},
        speeds=np.where(there, ratio * at_own, typed.speeds),
        is_placed=typed.is_placed | there,
        words=f"{typed.words}{said}{f', there {own.words}' if has_own else ', by the same curve'}",
    )


def _add_card(name: str, sources: SpeedupSources, typed: TypedSpeedup, types: Sequence[str]) -> TypedSpeedup:
    """Add the types on which a class did not run, but which its card compares with the reference type."""
    card = sources.cards.get(name)
    if card is None or typed.reference_type not in card.speedup or name in sources.measured.throughputs:
        return typed
    tables = card.relative_to(typed.reference_type, typed.found.reference_width).speedup
    added = {each: table for each, table in tables.items() if each in types and each not in typed.curves}
    said = "".join(f"; {each} by its card" for each in added)
    return replace(typed, curves={**typed.curves, **added}, words=typed.words + said)


def _scale(found: FoundSpeedup, ratio: float, factor: float, max_width: int) -> TableSpeedup:
    """Return a curve times a fitted ratio, off by a factor at most; errors multiply, and the weaker evidence counts."""
    curve = found.curve
    known = curve.known_widths()
    widths: IntArray = np.arange(1, max_width + 1) if known is None else known
    speedup = curve.at(widths)[0]
    low, high = curve.band_at(widths, found.reference_width)
    factors = np.maximum(high[0] / speedup, speedup / low[0]) * factor
    return TableSpeedup(
        gpus=widths,
        speedup=round_shared(ratio * speedup),
        provenance=[find_weakest({kind, Evidence.FITTED.value}) for kind in curve.evidence_at(widths)],
        error=np.round(np.minimum(factors, _LARGEST_FACTOR) - 1.0, ERROR_DECIMALS),
    )
