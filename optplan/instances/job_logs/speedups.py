"""Speedups of the classes of a log: measured, from a card, stated, or fitted to its own runs, in this order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from optplan.errors import DataError, UsageError, show_value
from optplan.instances.csv_tables import parse_number, parse_whole, read_rows
from optplan.instances.job_logs.columns import BoolColumn, Jobs
from optplan.instances.model_cards import CardSpeedup
from optplan.instances.plain_data import read_data
from optplan.quantities import round_shared
from optplan.schema import FloatArray, IntArray
from optplan.speedup import AmdahlSpeedup, Evidence, PowerSpeedup, Speedup, TableSpeedup, fit_best, fit_table
from optplan.speedup.curves import DEVIATIONS, LARGEST_ERROR, list_widths
from optplan.speedup.fitting import ERROR_DECIMALS, fit_ratio
from optplan.units import SECONDS_PER_HOUR

#: Columns of a table of throughputs, which `optplan measure jobs` writes, too.
THROUGHPUT_COLUMNS = ("class", "gpus", "samples_per_s")
#: Share of the runs that widths besides the two most common ones need to have a say.
_SAY = 0.1

#: Widths and throughputs of a class.
Throughputs = dict[str, tuple[list[int], list[float]]]


@dataclass(frozen=True)
class FoundSpeedup:
    """The speedup of a class, relative to 1 or the least width that was measured, and what it rests on."""

    curve: Speedup
    words: str
    reference_width: int = 1
    warning: str = ""

    def at(self, widths: IntArray) -> FloatArray:
        """Return the speedup (K,) at widths at which jobs ran, log-linear between two of a table; NaN beyond."""
        if isinstance(self.curve, TableSpeedup):
            known = self.curve.gpus
            found = np.exp(np.interp(np.log(widths), np.log(known), np.log(np.atleast_2d(self.curve.speedup)[0])))
            return np.where((widths >= known[0]) & (widths <= known[-1]), found, np.nan)
        return np.asarray(self.curve.at(widths)[0])


@dataclass(frozen=True)
class Measured:
    """What was measured of classes: widths with throughputs in any unit, seconds of a start or a change of width."""

    throughputs: Throughputs
    rescale_s: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, FloatArray] = field(default_factory=dict)  #: Of the ratios, where somebody said them.

    def add(self, other: Measured) -> Measured:
        """Return both; where both know a class, the other counts."""
        errors = {name: error for name, error in self.errors.items() if name not in other.throughputs}
        pauses = {**self.rescale_s, **other.rescale_s}
        return Measured({**self.throughputs, **other.throughputs}, pauses, {**errors, **other.errors})


def read_measured(path: Path, name: str = "") -> Measured:
    """Read a table of throughputs of classes, or what ``optplan measure jobs`` wrote of the class of that name."""
    if path.suffix == ".json":
        return _read_profile(path, name or path.stem, read_data(path))
    if name:
        fix = "leave its name away, or give what `optplan measure jobs` wrote of the class"
        raise DataError(str(path), f"is a table of throughputs, which names its classes itself (not {name!r})", fix)
    found: Throughputs = defaultdict(lambda: ([], []))
    for line, (each, gpus, rate) in read_rows(path, THROUGHPUT_COLUMNS):
        samples = parse_number(path, line, "samples_per_s", rate)
        if samples <= 0:
            raise DataError(f"{path}:{line}", f"samples_per_s is {rate}; a number above zero is needed", "leave it out")
        found[each][0].append(parse_whole(path, line, "gpus", gpus))
        found[each][1].append(samples)
    if not found:
        raise DataError(str(path), "has no throughputs", f"give rows of {', '.join(THROUGHPUT_COLUMNS)}")
    return Measured(dict(found))


def _read_profile(path: Path, name: str, data: object) -> Measured:
    """Read the fields of a class that `optplan measure jobs` wrote: a table on one type of GPU, and its pauses."""
    if not isinstance(data, Mapping) or "speedup" not in data:
        fix = f"give that, or a CSV with {', '.join(THROUGHPUT_COLUMNS)}"
        raise DataError(str(path), "is not what `optplan measure jobs` wrote of a class", fix)
    curves = data["speedup"]
    if not isinstance(curves, Mapping) or len(curves) != 1:
        raise DataError(f"{path.name}: speedup", "one table, of one type of GPU, is needed", "leave the others out")
    gpu_type, curve = next(iter(curves.items()))
    table = TableSpeedup.parse(curve, path=f"{path.name}: speedup.{gpu_type}")
    if table.num_epochs is not None:
        raise DataError(f"{path.name}: speedup.{gpu_type}", "has a row for each epoch", "give one row for all")
    if Evidence.CARD in table.evidence_at(table.gpus):
        raise DataError(str(path), "was computed from a model card, not measured", f"give it by --card {name}={path}")
    pause = data.get("rescale_s")
    if pause is not None and not (isinstance(pause, int | float) and 0 <= pause < math.inf):
        raise DataError(f"{path.name}: rescale_s", f"got {show_value(pause)}; seconds are needed", "correct it")
    pauses = {} if pause is None else {name: float(pause)}
    errors = {} if table.error is None else {name: table.error}
    return Measured({name: (table.gpus.tolist(), table.speedup.tolist())}, pauses, errors)


def read_assumption(text: str) -> AmdahlSpeedup | PowerSpeedup:
    """Read a stated speedup: ``amdahl:FRACTION`` (the serial one), ``power:EXPONENT`` or ``linear``."""
    form, _, number = text.partition(":")
    try:
        share = 0.0 if form == "linear" and not number else float(number)
    except ValueError:
        share = math.nan
    if not 0.0 <= share <= 1.0 or form not in ("amdahl", "power", "linear"):
        needed = "amdahl:FRACTION (the serial one), power:EXPONENT (both from 0 to 1) or linear is needed"
        raise UsageError(f"assume: got {show_value(text)}; {needed}")
    if form == "power":
        return PowerSpeedup(exponent=np.array(share), evidence=Evidence.ASSUMED)
    return AmdahlSpeedup(serial_fraction=np.array(share), evidence=Evidence.ASSUMED)


@dataclass(frozen=True)
class SpeedupSources:
    """What is known about speedups."""

    measured: Measured  #: What was measured.
    assumed: Mapping[str, str]  #: Stated, by class; under an empty name for all that are not known otherwise.
    #: By class, or under an empty name for all others, which runs are fitted: ``completed`` ones, ``all`` or ``none``.
    fit_runs: Mapping[str, str] = field(default_factory=dict)
    cards: Mapping[str, CardSpeedup] = field(default_factory=dict)  #: What follows from model cards, by class.

    def find(self, name: str, jobs: Jobs) -> FoundSpeedup:
        """Find a class's speedup: measured throughputs, else its card, what is stated for it, its runs, or for all."""
        # Of its runs those count that completed, for they alone say how long a job takes, unless the user says
        # otherwise. A class of which these say nothing but one width keeps to it.
        measured, card = self.measured.throughputs.get(name), self.cards.get(name)
        found = None if measured is None else _tabulate(name, *measured, self.measured.errors.get(name))
        if found is not None and card is None:
            return found
        used = self.choose_runs(name, jobs)
        gpus, hours = jobs.gpus[used].astype(np.int64), jobs.run_s[used] / SECONDS_PER_HOUR
        if card is not None:
            table, reference = choose_card(name, card, list_types(jobs), gpus)
            if found is None or measured is None:
                return _take_card(card, table, reference, gpus, hours)
            rates = np.array(measured[1])
            said, _ = find_contradiction(table, reference, np.array(measured[0]), 1.0 / rates, "measurements")
            said += "; the measurements are taken: do them again, or leave them out to take the card" if said else ""
            return replace(found, warning="; ".join(part for part in (found.warning, said) if part))
        if name in self.assumed:
            return _assume(self.assumed[name])
        widths = np.unique(gpus).tolist()
        fitted = self.name_fitted(name)
        if fitted != "none" and len(widths) > 1:
            return _fit(gpus, hours, f"{gpus.size:,}{'' if fitted == 'all' else ' completed'} runs")
        if "" in self.assumed:
            return _assume(self.assumed[""])
        ran = np.unique(jobs.gpus[jobs.run_s > 0.0]).tolist()
        if len(widths or ran) == 1:
            return _keep(*(widths or ran), alone=len(ran) == 1)
        why = "its runs are not to be fitted" if widths else f"no run completed, on any of {list_widths(np.array(ran))}"
        fix = "measure it, as by `optplan measure jobs`, and give --throughput FILE"
        if not widths:
            fix += (
                f", fit it to all its runs by --fit-runs {name}=all, or leave such jobs out, as by --rule failed=drop"
            )
        raise DataError(f"classes.{name}.speedup", f"is not known: {why}", fix)

    def choose_runs(self, name: str, jobs: Jobs) -> BoolColumn:
        """Return (N,) which runs of a class say how fast it is."""
        return (jobs.run_s > 0.0) & (jobs.completed | (self.name_fitted(name) == "all"))

    def name_fitted(self, name: str) -> str:
        """Say which runs of a class are fitted."""
        which = self.fit_runs.get(name, self.fit_runs.get("", "completed"))
        if which not in ("completed", "all", "none"):
            raise UsageError(f"--fit-runs: got {which!r}; completed, all or none is needed")
        return which


def _take_card(
    card: CardSpeedup, table: TableSpeedup, reference_width: int, gpus: IntArray, hours: FloatArray
) -> FoundSpeedup:
    """Return what a card says, its band as wide as completed runs that contradict it ask for."""
    said, wider = find_contradiction(table, reference_width, gpus, hours, "completed runs")
    words = f"from a model card: {'; '.join(card.describe().values())}"
    if not said:
        return FoundSpeedup(table, words, reference_width)
    factors = table.error_factors(table.gpus, reference_width)
    if factors is not None:
        table = table.replace(error=np.minimum(factors**wider - 1.0, LARGEST_ERROR).round(ERROR_DECIMALS))
    advice = (
        f"{said}; are jobs on more GPUs larger ones? The card is taken, its band {wider:.2g} times as wide; leave it "
        "out to fit the runs"
    )
    return FoundSpeedup(table, words, reference_width, advice)


def _tabulate(name: str, gpus: list[int], samples_per_s: list[float], error: FloatArray | None) -> FoundSpeedup:
    warning = find_disagreement(name, np.array(gpus), np.array(samples_per_s))
    if len(set(gpus)) == 1:
        curve = TableSpeedup(gpus=[gpus[0]], speedup=[1.0], provenance=("measured",))
        return FoundSpeedup(curve, f"measured at {list_widths(curve.gpus)} only", gpus[0], warning)
    curve = fit_table(gpus, samples_per_s, reference_width=min(gpus)).curve.replace(error=error)
    return FoundSpeedup(curve, f"measured at {list_widths(curve.gpus)}", min(gpus), warning)


def _keep(width: int, *, alone: bool) -> FoundSpeedup:
    """Return what is known of a class whose completed runs were on one width: nothing about any other."""
    curve = TableSpeedup(gpus=[width], speedup=[1.0], provenance=(Evidence.MEASURED.value,))
    gpus = list_widths(curve.gpus)
    words = f"unknown but for the {gpus} of its runs, so that it keeps to these"
    warning = "" if alone else f"runs on other widths than {gpus} did not complete; it keeps to these"
    return FoundSpeedup(curve, words, reference_width=width, warning=warning)


def _assume(text: str) -> FoundSpeedup:
    return FoundSpeedup(read_assumption(text), f"assumed: {text}")


def _fit(gpus: IntArray, hours: FloatArray, runs: str) -> FoundSpeedup:
    """Tell from how run times fall with the width how fast jobs are: from three widths on a law, else a table."""
    # Any law goes through two widths, and speaks of one GPU, on which maybe no job ran; errors are those of
    # :mod:`optplan.speedup.fitting`.
    widths, counts = np.unique(gpus, return_counts=True)
    keeps = widths.size == 2 or widths[0] > 1
    reference = int(widths[np.argmax(counts)]) if keeps else 1
    fit = (fit_ratio if widths.size == 2 else fit_best)(gpus, 1.0 / hours, reference_width=reference)
    curve: Speedup = fit.curve
    if keeps:
        low, high = curve.band_at(widths, reference)
        error = np.round(np.minimum(np.sqrt(high[0] / low[0]) - 1.0, LARGEST_ERROR), ERROR_DECIMALS)
        speeds = round_shared(curve.at(widths)[0] / curve.at(np.array([reference]))[0])
        curve = TableSpeedup(gpus=widths, speedup=speeds, provenance=Evidence.FITTED.value, error=error)
    law = f"{fit.message.split('; ')[-1]} ({'Amdahl' if isinstance(fit.curve, AmdahlSpeedup) else 'power law'})"
    if widths.size == 2:
        law = f"{fit.curve.at(widths[1:])[0][0] / fit.curve.at(widths)[0][0]:.3g} times as fast on the more"
    words = (
        f"fitted to {runs} on {list_widths(widths)}{', which it keeps to' if keeps else ''}: {law}, in 9 of 10 cases "
        f"off by at most {fit.curve.error or 0.0:.1%} for each doubling; single runs scatter by "
        f"{math.expm1(fit.rmse_log):.0%}"
    )
    warning = ""
    if np.sort(counts)[:-2].sum() < _SAY * counts.sum():
        warning = "two widths carry the fit, which is no test of the law; measure more of them"
    if fit.curve.at(np.array([2]))[0][0] in (1.0, 2.0):
        took = math.exp(np.log(hours[gpus == widths[-1]]).mean() - np.log(hours[gpus == widths[0]]).mean())
        times = f"runs on {widths[-1]} GPUs took {took:.2g} times as long as on {widths[0]}"
        warning = f"the fit ends at its bound, for {times}; were jobs on more GPUs larger ones? Measure how they scale"
    return FoundSpeedup(curve, words, reference, warning)


#: Ratio from which measurements of one width contradict one another, or those of two by how much faster a GPU is on
#: the wider; and from which no noise explains it, so that two settings were measured.
_SAME_WIDTH, _OTHER_SETTING = 1.25, 2.0
#: Logarithms closer than this differ by rounding.
_ROUNDING = 1e-9


def list_types(jobs: Jobs) -> list[str]:
    """List the types of GPU on which jobs ran, as far as the log says them."""
    return sorted(word for word in jobs.list_words(np.unique(jobs.gpu_type)) if word)


def choose_card(name: str, card: CardSpeedup, types: Sequence[str], gpus: IntArray) -> tuple[TableSpeedup, int]:
    """Return a card's table for the type of GPU on which a class ran, relative to the width of most runs (N,)."""
    if len(card.speedup) > 1 and not (len(types) == 1 and types[0] in card.speedup):
        problem = (
            f"is for {', '.join(card.speedup)}, and its jobs ran on {', '.join(types) or 'GPUs that have no name'}"
        )
        raise DataError(f"classes.{name}.speedup: its card", problem, "compute it for that type, as in --gpu NAME=h100")
    gpu = types[0] if len(card.speedup) > 1 else next(iter(card.speedup))
    widths, counts = np.unique(gpus[np.isin(gpus, card.speedup[gpu].gpus)], return_counts=True)
    base = int(widths[np.argmax(counts)]) if widths.size else int(card.speedup[gpu].gpus[0])
    return card.relative_to(gpu, base).speedup[gpu], base


def find_contradiction(
    table: TableSpeedup, reference_width: int, gpus: IntArray, seconds: FloatArray, what: str
) -> tuple[str, float]:
    """Say on which two widths times (N,) of equal work contradict a table most, beyond both their 90 % bands."""
    # Also how many times as wide, in logarithms, the table's band has to be so that nothing contradicts it. Between two
    # widths of the table its curve is log-linear, its error the larger of both.
    known = (gpus >= table.gpus[0]) & (gpus <= table.gpus[-1])
    widths, which, counts = np.unique(gpus[known], return_inverse=True, return_counts=True)
    if widths.size < 2:
        return "", 1.0
    logs = np.log(seconds[known])
    means = np.bincount(which, weights=logs) / counts
    freedom = logs.size - widths.size
    variance = float(((logs - means[which]) ** 2).sum()) / freedom if freedom else 0.0
    curve = np.log(table.at(table.gpus)[0])
    error = np.log(table.band_at(table.gpus, reference_width)[1][0]) - curve
    below, above = (np.searchsorted(table.gpus, widths, "right") - 1, np.searchsorted(table.gpus, widths))
    promised, errors = np.interp(np.log(widths), np.log(table.gpus), curve), np.maximum(error[below], error[above])
    base = int(np.argmax(counts))
    gains, promised = means[base] - means, promised - promised[base]
    bands = np.hypot(errors, errors[base])
    beyond = np.abs(gains - promised) - DEVIATIONS * np.sqrt(variance / counts + variance / counts[base])
    apart = beyond - bands
    apart[base] = 0.0
    worst = int(np.argmax(apart))
    if apart[worst] <= _ROUNDING:
        return "", 1.0
    wider = float(np.max(beyond[bands > 0.0] / bands[bands > 0.0], initial=1.0))
    sign = 1.0 if worst > base else -1.0  # speedups of the wider one
    said, stated = float(sign * gains[worst]), float(sign * promised[worst])
    low, high = (math.exp(stated + way * float(bands[worst])) for way in (-1.0, 1.0))
    small, large = sorted((int(widths[base]), int(widths[worst])))
    message = (
        f"{what} on {small} and {large} GPUs say {math.exp(said):.2g}, the card {math.exp(stated):.2g} "
        f"({low:.2g} to {high:.2g})"
    )
    return message, wider


def find_disagreement(name: str, gpus: IntArray, rates: FloatArray) -> str:
    """Say on which widths a class's measurements contradict one another; their mean is what a table has."""
    widths, said = np.unique(gpus).tolist(), []
    for width in widths:
        own = rates[gpus == width]
        differ = f"measurements on {width} GPUs differ, from {own.min():g} to {own.max():g}"
        if own.max() > _OTHER_SETTING * own.min():
            fix = "keep those of one setting, or measure it again"
            raise DataError(f"classes.{name}.speedup", f"{differ}, more than noise explains", fix)
        if own.max() > _SAME_WIDTH * own.min():
            said.append(f"{differ}; their mean is taken, measure again for a better one")
    means = [math.exp(np.log(rates[gpus == width]).mean()) for width in widths]
    for small, large, slow, fast in zip(widths, widths[1:], means, means[1:], strict=False):
        if fast / slow > _SAME_WIDTH * large / small:
            gain = f"say {fast / slow:.3g} times as fast on {large / small:.3g} times the GPUs"
            said.append(
                f"measurements on {small} and {large} GPUs {gain}; unless memory is short on {small}, correct them"
            )
    return "; ".join(said)
