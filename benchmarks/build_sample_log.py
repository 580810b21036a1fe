"""Write the sample of `sacct --parsable2` that the docs start from: a made-up fortnight of a made-up cluster.

Three kinds of training jobs on A100s, one of which comes in sweeps; some fail, are cancelled, requeued or run out of
time, the last ones still run or wait, and jobs without GPUs are among them. No real trace is behind it::

    python benchmarks/build_sample_log.py
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "docs" / "examples" / "sacct.txt"
SEED, HOURS = 20260302, 14 * 24
BEGIN = datetime(2026, 3, 2)  # sacct writes the cluster's time without its zone
HEADER = "JobID|JobName|User|State|Submit|Start|End|Elapsed|AllocTRES|ReqTRES"
FORM = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True)
class _Kind:
    """Jobs of one kind: how often they come and how many at once, size and its spread, widths and speedup."""

    name: str
    user: str
    per_hour: float
    at_once: int
    size_gpu_h: float
    spread: float
    widths: tuple[int, ...]
    speedup: Callable[[int], float]


KINDS = (
    _Kind("vision", "ann", 0.25, 1, 9.0, 0.2, (2, 4), lambda k: k / (1 + 0.131 * (k - 1))),
    _Kind("language", "bob", 0.06, 1, 30.0, 0.15, (8,), lambda _k: 6.98),
    _Kind("speech", "eve", 0.03, 6, 3.0, 0.3, (1, 2, 4, 8), lambda k: k / (1 + 0.08 * (k - 1))),
)
#: How jobs end, with the share of them and the share of its size that such a job does.
ENDINGS = (("FAILED", 0.06, 0.3), ("CANCELLED by 1000", 0.04, 0.4), ("TIMEOUT", 0.02, 0.9), ("REQUEUED", 0.02, 0.5))


def main() -> None:
    """Write the sample."""
    text = "\n".join([HEADER, *list_lines(random.Random(SEED))]) + "\n"
    TARGET.write_text(text, encoding="utf-8")
    print(TARGET.name, text.count("\n"), "lines")


def list_lines(rng: random.Random) -> Iterator[str]:
    """Yield the lines of the log, jobs in the order of their submission, each followed by its steps."""
    submitted = sorted(
        (hour, number, kind)
        for kind in KINDS
        for hour in _draw_arrivals(rng, kind.per_hour)
        for number in range(kind.at_once)
    )
    waiting = sorted(_draw_arrivals(rng, 0.1))
    id_ = 41_000
    for hour, number, kind in submitted:
        while waiting and waiting[0] < hour:
            id_ += 1
            begun = BEGIN + timedelta(hours=waiting.pop(0))
            yield from _write_job(str(id_), "jupyter", "ann", "COMPLETED", (begun, begun, 1800.0), 0)
        id_ += 0 if number else 1
        array = f"{id_}_{number}" if kind.at_once > 1 else str(id_)
        yield from _draw_job(rng, kind, array, BEGIN + timedelta(hours=hour))


def _draw_arrivals(rng: random.Random, per_hour: float) -> Iterator[float]:
    """Yield the hours of a Poisson process."""
    hour = -math.log(1.0 - rng.random()) / per_hour
    while hour < HOURS:
        yield hour
        hour -= math.log(1.0 - rng.random()) / per_hour


def _draw_job(rng: random.Random, kind: _Kind, id_: str, submit: datetime) -> Iterator[str]:
    """Draw a job and yield its lines: attempts before the last one, the job, and its steps."""
    gpus = kind.widths[int(rng.random() * len(kind.widths))]
    # Box and Muller, from the one method of random whose numbers are the same in every version of Python.
    normal = math.sqrt(-2.0 * math.log(1.0 - rng.random())) * math.cos(2.0 * math.pi * rng.random())
    run_s = 3600.0 * kind.size_gpu_h * math.exp(kind.spread * normal) / kind.speedup(gpus)
    start = submit + timedelta(seconds=round(60.0 * gpus * (0.2 - math.log(1.0 - rng.random()))))
    name = f"{kind.name}-{submit:%m%d}-{int(rng.random() * 16**6):06x}"
    fate, state = rng.random(), "COMPLETED"
    for ending, share, done in ENDINGS:
        fate -= share
        if fate < 0:
            state, run_s = ending, run_s * done
            break
    end = start + timedelta(seconds=round(run_s))
    if state == "REQUEUED":
        yield from _write_job(id_, name, kind.user, state, (submit, start, run_s), gpus)
        start, state = end + timedelta(minutes=7), "COMPLETED"
        end = start + timedelta(seconds=round(run_s))
    if start > BEGIN + timedelta(hours=HOURS):
        yield from _write_job(id_, name, kind.user, "PENDING", (submit, None, 0.0), gpus)
    elif end > BEGIN + timedelta(hours=HOURS):
        ran = (BEGIN + timedelta(hours=HOURS) - start).total_seconds()
        yield from _write_job(id_, name, kind.user, "RUNNING", (submit, start, ran), gpus)
    else:
        yield from _write_job(id_, name, kind.user, state, (submit, start, run_s), gpus)


def _write_job(
    id_: str, name: str, user: str, state: str, times: tuple[datetime, datetime | None, float], gpus: int
) -> Iterator[str]:
    """Yield the lines of a job: submitted, started, and how many seconds it ran."""
    submit, start, run_s = times
    elapsed = timedelta(seconds=round(run_s))
    days, seconds = elapsed.days, elapsed.seconds
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    shown = f"{days}-{clock}" if days else clock
    asked = f"billing={4 * max(gpus, 1)},cpu={4 * max(gpus, 1)},"
    asked += f"gres/gpu:a100={gpus},gres/gpu={gpus},node=1" if gpus else "mem=16G,node=1"
    begun = "Unknown" if start is None else f"{start:{FORM}}"
    ended = "Unknown" if start is None or state == "RUNNING" else f"{start + elapsed:{FORM}}"
    given = "" if start is None else asked
    yield f"{id_}|{name}|{user}|{state}|{submit:{FORM}}|{begun}|{ended}|{shown}|{given}|{asked}"
    if start is not None:
        word = state.split(maxsplit=1)[0]
        yield f"{id_}.batch|batch||{word}|{begun}|{begun}|{ended}|{shown}|{given}|"


if __name__ == "__main__":
    main()
