"""Fit the constants of step times from model cards to measured ones, and try them on models that were left out.

The data is read from the folder of public data (``llm/``), and is no part of the repository::

    python benchmarks/fit_cards.py --data ../shared/data --write

writes what is fitted into ``optplan/speedup/cards/constants.json``. What ``bench_cards.py`` makes a page of is here.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from optplan.schema import FloatArray
from optplan.speedup.cards.records import Cluster, Constants, ModelCard, load_constants, make_cluster
from optplan.speedup.cards.steps import (
    VALID_GPUS,
    Layout,
    Workload,
    find_error,
    find_fastest,
    find_memory,
    find_seconds,
    stack_layouts,
)

FILE = Path(__file__).resolve().parents[1] / "optplan" / "speedup" / "cards" / "constants.json"
PLAYBOOK, MPT = "playbook", "MPT"
#: Layers, hidden size, parameters and whether embeddings are tied, of the playbook's models. They follow from the model
#: FLOPs utilisation beside each of its throughputs: 1B does 9.66 GFLOP a token, which are 6 x 1.342e9 for the weights
#: and 12 x 16 x 2,048 x 4,096 for attention.
PLAYBOOK_MODELS = {
    "1B": (16, 2048, 1.342e9, True),
    "3B": (28, 3072, 3.573e9, True),
    "80B": (80, 8192, 80.0e9, False),
}
PLAYBOOK_VOCABULARY, PLAYBOOK_SEQUENCE = 131_072, 4096
MPT_MODELS = {
    "125m": (12, 768),
    "350m": (24, 1024),
    "760m": (24, 1536),
    "1b": (24, 2048),
    "3b": (32, 2560),
    "7b": (32, 4096),
    "13b": (40, 5120),
}
MPT_VOCABULARY = 50_368
MPT_GPUS = {"a100_40gb": "a100-40gb", "a100_80gb": "a100-80gb", "h100_80gb": "h100"}
#: What is fitted: where the search starts, and how far the logarithm is expected to lie from there.
PRIORS = {
    "ampere_efficiency": (0.75, 0.1),
    "hopper_efficiency": (0.54, 0.2),
    "attention_efficiency": (0.35, 0.2),
    "activation_passes": (6.5, 0.3),
    "launch_s": (2.5e-3, 0.2),
    "link_efficiency": (0.8, 0.1),
    "latency_s": (5e-5, 0.3),
    "optimizer_shard_traffic": (1.5, 0.3),
    "recomputation": (0.25, 0.2),
    "step_s": (0.02, 0.3),
}
#: Weights of residuals: a speedup counts 1; seconds of a row, of a model's mean and of a prior's spread less.
ROW_WEIGHT, MEAN_WEIGHT, MPT_ROW_WEIGHT, PRIOR_WEIGHT = 0.25, 0.3, 0.1, 0.05
#: How fast a row's weight falls with its time over that of the best layout.
ROW_DECAY = 0.3
#: Where residuals begin to count linearly.
OUTLIER = 0.05


@dataclass(frozen=True)
class Row:
    """A measured step."""

    source: str
    model: str
    series: tuple[str, ...]  #: Rows of one series differ in width and layout.
    gpus: int
    card: ModelCard
    cluster: Cluster
    layout: Layout
    seconds: float
    memory_gb: float | None

    @property
    def seconds_per_token(self) -> float:
        """Time of a token: steps of a series may differ in their batches."""
        return self.seconds / self.card.tokens


@dataclass(frozen=True)
class Pair:
    """Two widths of a series: how many times faster the wider one is."""

    row: Row  #: That of the wider one.
    narrow: int
    measured: float
    estimated: float

    @property
    def error(self) -> float:
        """Relative error of the speedup, in whichever direction."""
        return max(self.estimated / self.measured, self.measured / self.estimated) - 1.0

    @property
    def doublings(self) -> float:
        """How often the width doubles."""
        return math.log2(self.row.gpus / self.narrow)


def read_playbook(folder: Path, outcome: str = "measured") -> list[Row]:
    """Return the layouts of the playbook with tensor parallelism within a node; those that failed took no time."""
    cluster = make_cluster("h100")
    rows = []
    for row in _read(folder / "nanotron-h100.csv"):
        if row["outcome"] != outcome or int(row["tp"]) > cluster.gpus_per_node:
            continue
        layers, hidden, parameters, tied = PLAYBOOK_MODELS[row["model"]]
        card = ModelCard(
            name=row["model"],
            parameters=parameters,
            layers=layers,
            hidden_size=hidden,
            vocabulary=PLAYBOOK_VOCABULARY,
            sequence_length=PLAYBOOK_SEQUENCE,
            global_batch=round(float(row["global_batch"])),
            tied_embeddings=tied,
            checkpointing=False,
        )
        degrees = [round(float(row[name])) for name in ("dp", "tp", "pp", "micro_batch", "zero")]
        gpus = int(row["gpus"])
        seconds, memory = math.nan, None
        if outcome == "measured":
            seconds = card.tokens / (float(row["tokens_per_s_per_gpu"]) * gpus)
            memory = float(row["memory_gb"])
        layout = Layout(*degrees, checkpointing=False)
        rows.append(Row(PLAYBOOK, row["model"], (row["model"],), gpus, card, cluster, layout, seconds, memory))
    return rows


def read_mpt(folder: Path) -> list[Row]:
    """Return the rows of MPT in 16 bits."""
    rows = []
    for row in _read(folder / "mpt-fsdp.csv"):
        if "fp8" in row["precision"]:
            continue
        layers, hidden = MPT_MODELS[row["model"]]
        gpus, again = int(row["gpus"]), row["activation_checkpointing"] == "True"
        card = ModelCard(
            name=row["model"],
            parameters=float(row["numparams"]),
            layers=layers,
            hidden_size=hidden,
            vocabulary=MPT_VOCABULARY,
            sequence_length=int(row["seqlen_tokens"]),
            global_batch=int(row["globalbatchsize"]),
        )
        layout = Layout(gpus, 1, 1, int(row["microbatchsize"]), 3, checkpointing=again)
        seconds = card.tokens / (float(row["throughput_t_per_s_per_gpu"]) * gpus)
        series = (row["model"], row["seqlen_tokens"], row["gpu"])
        rows.append(
            Row(MPT, row["model"], series, gpus, card, make_cluster(MPT_GPUS[row["gpu"]]), layout, seconds, None)
        )
    return rows


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_rows(folder: Path) -> list[Row]:
    """Return all measured steps of the folder ``llm``."""
    return read_playbook(folder) + read_mpt(folder)


def stack_work(rows: Sequence[Row]) -> Workload:
    """Return the workloads of rows as columns."""
    works = [Workload.of(row.card, row.cluster) for row in rows]
    return Workload(*(np.array([getattr(work, field.name) for work in works]) for field in fields(Workload)))


def find_best(rows: Iterable[Row]) -> dict[tuple[str, ...], dict[int, Row]]:
    """Return by series and width the row with the least time of a token."""
    best: dict[tuple[str, ...], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        known = best[row.series].get(row.gpus)
        if known is None or row.seconds_per_token < known.seconds_per_token:
            best[row.series][row.gpus] = row
    return dict(best)


# ------------------------------------------------------------------------------------------------------------- the fit


def fit(rows: Sequence[Row]) -> Constants:
    """Return the constants that fit these rows: robust least squares of log speedups, seconds and priors."""
    rows = [row for row in rows if row.gpus <= VALID_GPUS[1]]
    find_residuals = _state_residuals(rows)
    centre = np.log([value for value, _ in PRIORS.values()])
    spread = np.array([spread for _, spread in PRIORS.values()])

    def residuals(logs: FloatArray) -> FloatArray:
        return np.concatenate([find_residuals(_fill(logs)), PRIOR_WEIGHT * (logs - centre) / spread])

    found = least_squares(residuals, centre, loss="soft_l1", f_scale=OUTLIER, diff_step=1e-3, max_nfev=40)
    return _fill(found.x)


def _fill(logs: FloatArray) -> Constants:
    return load_constants().model_copy(update=dict(zip(PRIORS, np.exp(logs).tolist(), strict=True)))


def _state_residuals(rows: Sequence[Row]) -> Callable[[Constants], FloatArray]:
    work, layouts = stack_work(rows), stack_layouts([row.layout for row in rows])
    logs = np.log([row.seconds for row in rows])
    best = find_best(rows)
    over = np.array([row.seconds_per_token / best[row.series][row.gpus].seconds_per_token for row in rows])
    playbook = np.array([row.source == PLAYBOOK for row in rows])
    weights = np.where(playbook, ROW_WEIGHT * np.exp(-(over - 1.0) / ROW_DECAY), MPT_ROW_WEIGHT)
    by_width: dict[tuple[str, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, row in enumerate(rows):
        if row.source == PLAYBOOK or row is best[row.series][row.gpus]:
            by_width[row.series][row.gpus].append(index)

    def residuals(constants: Constants) -> FloatArray:
        estimated = np.log(find_seconds(work, layouts, constants))
        parts = [weights * (estimated - logs)]
        for widths in by_width.values():
            errors = np.array([estimated[each].min() - logs[each].min() for each in widths.values()])
            if playbook[next(iter(widths.values()))[0]]:
                parts.append(np.array([MEAN_WEIGHT * errors.mean()]))
            if len(errors) > 1:
                parts.append(errors - np.median(errors))
        return np.concatenate(parts)

    return residuals


# ----------------------------------------------------------------------------------------------------- what it is worth


def list_pairs(rows: Sequence[Row], constants: Constants, *, as_measured: bool = False) -> list[Pair]:
    """Return the pairs of widths of each series; estimated of the fastest layout, or of the one measured as fastest."""
    pairs = []
    for widths in find_best(rows).values():
        if len(widths) < 2:
            continue
        times = {gpus: _estimate(row, constants, as_measured=as_measured) for gpus, row in sorted(widths.items())}
        for narrow, wide in itertools.combinations(times, 2):
            before, after = times[narrow], times[wide]
            if before is not None and after is not None:
                measured = widths[narrow].seconds_per_token / widths[wide].seconds_per_token
                pairs.append(Pair(widths[wide], narrow, measured, before / after))
    return pairs


def _estimate(row: Row, constants: Constants, *, as_measured: bool) -> float | None:
    """Return the seconds of a token; None where no layout fits."""
    if as_measured:
        work = Workload.of(row.card, row.cluster)
        return float(find_seconds(work, stack_layouts([row.layout]), constants)[0]) / row.card.tokens
    step = find_fastest(row.card, row.cluster, row.gpus, constants)
    return step and step.seconds / row.card.tokens


def leave_one_out(rows: Sequence[Row]) -> dict[tuple[str, str], Constants]:
    """Return by source and model the constants that fit all other models of its source, and the other source."""
    models = dict.fromkeys((row.source, row.model) for row in rows)
    return {each: fit([row for row in rows if (row.source, row.model) != each]) for each in models}


def calibrate(pairs: Sequence[Pair]) -> float:
    """Return the error of a whole doubling for which bands cover nine tenths of the pairs of nine models in ten.

    Pairs of one model err together: a model not seen yet is like one of the models, and not like one of the pairs.
    """
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    for pair in pairs:
        errors[pair.row.source, pair.row.model].append(pair.error / math.sqrt(min(pair.doublings, 1.0)))
    by_model = [float(np.quantile(each, 0.9)) for each in errors.values()]
    return math.ceil(float(np.quantile(by_model, 0.9)) * 100.0) / 100.0


def find_band(pair: Pair) -> float:
    """Return the error that cards state for a pair."""
    return find_error(pair.row.card, pair.row.cluster, pair.row.gpus, pair.narrow)


def find_memory_gb(rows: Sequence[Row], constants: Constants) -> FloatArray:
    """Return the memory that the law says of rows."""
    layouts = stack_layouts([row.layout for row in rows])
    return np.asarray(find_memory(stack_work(rows), layouts, constants) / 1e9)


def within(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs that no width beyond the validity is part of."""
    return [pair for pair in pairs if pair.row.gpus <= VALID_GPUS[1]]


def try_pairs(rows: Sequence[Row], *, as_measured: bool = False) -> list[Pair]:
    """Return the pairs of each model, estimated with what was fitted without it."""
    pairs: list[Pair] = []
    for (source, model), constants in leave_one_out(rows).items():
        own = [row for row in rows if (row.source, row.model) == (source, model)]
        pairs += list_pairs(own, constants, as_measured=as_measured)
    return pairs


def main() -> None:
    """Fit, say what was found, and write it where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the public data")
    parser.add_argument("--write", action="store_true", help=f"write the constants into {FILE.name}")
    arguments = parser.parse_args()
    rows = read_rows(arguments.data / "llm")
    values = {name: float(f"{getattr(fit(rows), name):.4g}") for name in PRIORS}
    values["pair_error"] = calibrate(within(try_pairs(rows)))
    print(json.dumps(values, indent=2))
    if arguments.write:
        write_constants(values)


def write_constants(values: dict[str, float]) -> None:
    """Write values into the file of constants, a constant a line."""
    data: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    for name, value in values.items():
        data["constants"][name]["value"] = value
    lines = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in data["constants"].items()]
    fitted = json.dumps(datetime.now(tz=UTC).date().isoformat())
    text = f'{{\n  "fitted": {fitted},\n  "constants": {{\n' + ",\n".join(lines) + "\n  }\n}\n"
    FILE.write_text(text, encoding="utf-8")
    print("wrote", FILE)


if __name__ == "__main__":
    main()
