"""Logs of jobs with known truth: made from true speedups that no law of ours is, and how often stated bands hold them.

Twenty seeded logs, of one GPU type or three, some with classes of one width, two of language models whose true
speedups are measured ones. Jobs arrive at random, their sizes are lognormal, their widths chosen without regard to the
size; some fail or are cancelled. Each log is imported as users import theirs, and every band compared with the truth::

    python benchmarks/known_truth.py --data ../shared/data [--write FOLDER]
"""

from __future__ import annotations

import argparse
import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from build_sample_log import KINDS
from build_sample_log import TARGET as SAMPLE

from optplan import BoaInstance, BoaSolution, Result, TableSpeedup, Widths, read_instance, solve
from optplan.cli import main as run_command_line

LOGS, SEED = 20, 20260302
BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
#: Logs with three types of GPUs, and relative speeds of these; logs of language models; the first classes of every
#: third log run on one width.
TYPED, TYPES = range(14, 18), {"a100": 1.0, "h100": 2.1, "l40s": 0.7}
LANGUAGE = range(18, 20)
#: Widths that jobs have, and that bands are compared at.
DOUBLINGS = tuple(2**power for power in range(9))
#: Most that twice the GPUs may be faster by.
MOST_GAIN = 2.4
#: How jobs end, with the share of them and the least and largest share of its size that such a job does.
ENDINGS = (("FAILED", 0.08, 0.0, 1.0), ("CANCELLED", 0.05, 0.0, 1.0), ("TIMEOUT", 0.02, 0.9, 0.9))

#: The true speedup at each width that jobs may have.
Curve = dict[int, float]


@dataclass(frozen=True)
class TrueClass:
    """What a class truly is."""

    jobs: int  #: On average.
    hours: float  #: Its mean on the least width of the first type.
    spread: float  #: Standard deviation of the logarithm of a job's size.
    widths: tuple[int, ...]  #: Of which each job has one, each as likely as any other.
    speedup: Mapping[str, Curve]  #: By type, relative to the least width of the first one.


@dataclass(frozen=True)
class KnownLog:
    """A log and what it was made from."""

    name: str
    text: str
    weeks: int
    classes: Mapping[str, TrueClass]
    form: str = "csv"


class Band(NamedTuple):
    """A stated band beside the truth."""

    log: str
    job_class: str
    gpu_type: str
    gpus: int
    truth: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the truth is within, rounding apart."""
        return self.low * (1.0 - 1e-9) <= self.truth <= self.high * (1.0 + 1e-9)


def make_logs(data: Path | None) -> Iterator[KnownLog]:
    """Yield the logs; without the public data, those of language models are missing."""
    for number in range(LOGS):
        if number not in LANGUAGE:
            yield make_log(number)
        elif data is not None:
            yield make_log(number, read_language_models(data))


def make_sample_log() -> KnownLog:
    """Return the log that the docs start from, with what it was made from."""
    widths = range(1, 33)
    classes = {
        kind.name: TrueClass(
            0, kind.size_gpu_h, kind.spread, kind.widths, {"a100": {k: kind.speedup(k) for k in widths}}
        )
        for kind in KINDS
    }
    return KnownLog("sample", SAMPLE.read_text(encoding="utf-8"), 2, classes, "sacct")


def make_log(number: int, measured: Mapping[str, Curve] | None = None) -> KnownLog:
    """Make a log, of classes with drawn speedups or with measured ones."""
    rng = np.random.default_rng(np.random.SeedSequence((SEED, number)))
    types = TYPES if number in TYPED else {"a100": 1.0}
    classes: dict[str, TrueClass] = {}
    weeks = int(rng.integers(2, 9))
    for place, name in enumerate(measured or ("vision", "speech", "ranking", "folding")[: rng.integers(2, 5)]):
        if measured is not None:
            curves = {"a100": measured[name]}
        else:
            curves = {one: _draw_curve(rng, speed) for one, speed in types.items()}
        known = [k for k in curves["a100"] if k in DOUBLINGS]
        count = min(int(rng.integers(2, 6)), len(known))
        widths = sorted(rng.choice(known, 1 if number % 3 == 0 and place == 0 else count, replace=False).tolist())
        classes[name] = TrueClass(
            jobs=int(np.exp(rng.uniform(np.log(30.0), np.log(300.0)))),
            hours=float(np.exp(rng.uniform(np.log(2.0), np.log(30.0)))),
            spread=float(rng.uniform(0.15, 0.5)),
            widths=tuple(widths),
            speedup=curves,
        )
    return KnownLog(f"known-{number:02d}", _write_log(rng, classes, weeks), weeks, classes)


def _draw_curve(rng: np.random.Generator, speed: float) -> Curve:
    """Draw a speedup: contention and crosstalk (Gunther's universal scalability law), and a step to a second node.

    Neither Amdahl's law, which has no crosstalk and no step, nor a power of the width.
    """
    contention, crosstalk = np.exp(rng.uniform(np.log([0.01, 1e-5]), np.log([0.15, 5e-4])))
    step, node = rng.uniform(0.0, 0.15), int(rng.choice([4, 8]))
    return {
        k: float(speed * k / (1.0 + contention * (k - 1) + crosstalk * k * (k - 1)) * (1.0 - step * (k > node)))
        for k in range(1, 33)
    }


def read_language_models(data: Path) -> dict[str, Curve]:
    """Return measured speedups of language models at a fixed global batch, each width in its fastest layout.

    Widths on which a model barely fits are left out: nobody trains where twice the GPUs are thrice as fast.
    """
    fastest: dict[str, Curve] = defaultdict(dict)
    with (data / "llm" / "nanotron-h100.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            gpus = int(row["gpus"])
            if row["outcome"] == "measured" and gpus <= 256:
                rate = float(row["tokens_per_s_per_gpu"]) * gpus
                curve = fastest[f"llm{row['model'].lower()}"]
                curve[gpus] = max(rate, curve.get(gpus, 0.0))
    for curve in fastest.values():
        while curve[2 * min(curve)] > MOST_GAIN * curve[min(curve)]:
            del curve[min(curve)]
    return {name: {k: rate / curve[min(curve)] for k, rate in sorted(curve.items())} for name, curve in fastest.items()}


def _write_log(rng: np.random.Generator, classes: Mapping[str, TrueClass], weeks: int) -> str:
    rows = []
    for name, true in classes.items():
        for number in range(rng.poisson(true.jobs)):
            submit = BEGIN + timedelta(hours=float(rng.uniform(0.0, weeks * 7 * 24)))
            gpu_type = str(rng.choice(list(true.speedup)))
            gpus = int(rng.choice(true.widths))
            size = true.hours * np.exp(true.spread * rng.standard_normal() - true.spread**2 / 2.0)
            state, hours = "COMPLETED", float(size / true.speedup[gpu_type][gpus])
            fate = rng.uniform()
            for ending, share, least, most in ENDINGS:
                if 0.0 <= fate < share:
                    state, hours = ending, hours * float(rng.uniform(least, most))
                fate -= share
            rows.append(
                (submit.isoformat(timespec="seconds"), f"{name}-{number}", f"{hours:.6f}", gpus, gpu_type, state)
            )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["submit", "name", "hours", "gpus", "gpu_type", "state"])
    writer.writerows(sorted(rows))
    return text.getvalue()


def import_known(log: KnownLog, folder: Path, *options: str) -> BoaInstance:
    """Import a log as users do, by the command line."""
    target = folder / f"{log.name}.json"
    command = [*write_command(log, folder), *options, "-o", str(target), "--force"]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as complaints:
        code = run_command_line(command)
    if code:
        raise ValueError(complaints.getvalue())
    instance = read_instance(target)
    assert isinstance(instance, BoaInstance)
    return instance


def write_command(log: KnownLog, folder: Path) -> list[str]:
    """Write a log into a folder, and return the command that imports it, but for where to."""
    path = folder / f"{log.name}.txt"
    path.write_text(log.text, encoding="utf-8")
    span = ["--since", f"{BEGIN:%Y-%m-%d}", "--until", f"{BEGIN + timedelta(weeks=log.weeks):%Y-%m-%d}"]
    how = ["--from", log.form, *span, "--class-pattern", "^[a-z0-9]+", "--rescale", "60s"]
    return ["import", "log", str(path), *how]


def find_start(log: KnownLog, instance: BoaInstance, name: str) -> tuple[str, int]:
    """Return the type and the width that a class's speedups are relative to, where the truth is known.

    That is the least known width in place of a reference width without a known truth: a language model on one GPU.
    """
    job_class, true = instance.classes[name], log.classes[name].speedup
    width = job_class.reference_width
    known = {one: width in true[one] for one in job_class.speedup}
    for one, curve in job_class.speedup.items():
        if known[one] and width in instance.allowed_widths(name, one) and curve.at(np.array([width]))[0, 0] == 1.0:
            return one, width
    first = next(iter(job_class.speedup))
    return first, min(true[first])


def list_bands(log: KnownLog, instance: BoaInstance) -> Iterator[Band]:
    """Yield the bands of an imported log at the widths whose truth is known, but for the one that they start from."""
    for name, job_class in instance.classes.items():
        true, (first, start) = log.classes[name].speedup, find_start(log, instance, name)
        base = job_class.speedup[first].at(np.array([start]))[0, 0]
        for gpu_type, curve in job_class.speedup.items():
            allowed = set(instance.allowed_widths(name, gpu_type).tolist())
            known = [k for k in true[gpu_type] if k in allowed and k in DOUBLINGS]
            widths = [k for k in known if (k, gpu_type) != (start, first)]
            low, high = curve.band_at(np.array(widths, dtype=np.int64), start)
            for k, at_least, at_most in zip(widths, low[0] / base, high[0] / base, strict=True):
                truth = true[gpu_type][k] / true[first][start]
                yield Band(log.name, name, gpu_type, k, truth, float(at_least), float(at_most))


def find_budget(instance: BoaInstance) -> str:
    """Return half as many GPUs again as the log's jobs held on average."""
    logged = [(each.arrival_rate_per_hour, each.logged) for each in instance.classes.values()]
    return f"{1.5 * sum(rate * jobs.gpu_hours for rate, jobs in logged if jobs is not None):.4g}gpu"


def make_truth(log: KnownLog, instance: BoaInstance) -> BoaInstance:
    """Return an imported log with its true speedups, and the mean sizes that its jobs then had."""
    classes = {}
    sizes: dict[str, list[float]] = defaultdict(list)
    for row in csv.DictReader(io.StringIO(log.text)):
        name = row["name"].partition("-")[0]
        sizes[name].append(float(row["hours"]) * log.classes[name].speedup[row["gpu_type"]][int(row["gpus"])])
    for name, job_class in instance.classes.items():
        true, (first, start) = log.classes[name].speedup, find_start(log, instance, name)
        tables = {}
        for gpu_type in job_class.speedup:
            widths = [k for k in instance.allowed_widths(name, gpu_type).tolist() if k in true[gpu_type]]
            tables[gpu_type] = TableSpeedup(
                gpus=widths, speedup=[true[gpu_type][k] / true[first][start] for k in widths], provenance="measured"
            )
        size = float(np.mean(sizes[name])) / true[first][start]
        classes[name] = job_class.replace(
            speedup=tables, reference_width=start, epoch_size_gpu_hours=np.array([size]), widths=Widths()
        )
    return instance.replace(classes=classes)


def contains(found: Result[BoaSolution], truth: float | None) -> bool:
    """Return whether an answer's range holds an optimum, to the gap of the solves; without one, if it is it."""
    assert truth is not None
    ends = (found.objective, found.objective) if found.range is None else found.range.best
    low, high = (found.objective if end is None else end for end in ends)
    assert low is not None
    assert high is not None
    return low * (1.0 - 1e-3) <= truth <= high * (1.0 + 1e-3)


def main() -> None:
    """Print every band that misses its truth, and how many hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the public data")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where to leave the logs")
    arguments = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = arguments.write or Path(temporary)
        folder.mkdir(exist_ok=True)
        bands: list[Band] = []
        held: list[bool] = []
        for log in make_logs(arguments.data):
            instance = import_known(log, folder)
            bands += list_bands(log, instance)
            budget = find_budget(instance)
            found = solve(instance.replace(budget=budget))
            truth = solve(make_truth(log, instance).replace(budget=budget)).objective
            held.append(contains(found, truth))
            ends = "exact" if found.range is None else "{:,.0f} to {:,.0f} s".format(*found.range.best)
            print(f"{log.name}: {found.objective:,.0f} s, {ends}, at the truth {truth:,.0f} s")
    for band in bands:
        if not band.holds:
            ends = f"{band.low:.4g} to {band.high:.4g}"
            print(f"{band.log} {band.job_class} {band.gpu_type} {band.gpus}: {band.truth:.4g} is not within {ends}")
    print(f"{sum(band.holds for band in bands)} of {len(bands)} bands hold the true speedup")
    print(f"{sum(held)} of {len(held)} ranges hold the optimum at the truth")


if __name__ == "__main__":
    main()
