"""What differs between the widths that two answers give a class: shares of its jobs, and GPUs by runs of epochs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

from optplan.contracts import Plan, Result, Solution
from optplan.formulations.boa.data.instance import BoaSolution
from optplan.formulations.boa.planning import BoaPlan
from optplan.reporting.differences import GPUS, SHARE, Difference
from optplan.reporting.phrases import count_gpus, format_gpus


@dataclass(frozen=True)
class Held:
    """GPUs that a job holds in an epoch; ``gpu_type`` is empty where the instance has one type."""

    gpus: float
    gpu_type: str = ""

    def __str__(self) -> str:
        """Write them: ``8``, ``8 a100``."""
        return f"{format_gpus(self.gpus)} {self.gpu_type}".strip()


@dataclass(frozen=True)
class Path:
    """What a share of a class's jobs holds, epoch by epoch."""

    share: float
    held: tuple[Held, ...]


def list_paths(answer: Result[Solution] | Plan, *, only_type: str = "") -> dict[str, tuple[Path, ...]]:
    """Return the paths of each class; empty where an answer has none.

    ``only_type`` is the GPU type where the answer names none, because there is one only.
    """
    rows: dict[str, list[tuple[float, list[float], tuple[str, ...] | None]]] = {}
    if isinstance(answer, BoaPlan):
        rows = {
            name: [(row.share, row.gpus.tolist(), row.gpu_types) for row in table]
            for name, table in answer.width_table.items()
        }
    elif isinstance(answer, Result) and isinstance(answer.solution, BoaSolution):
        rows = {
            name: [(branch.fraction, branch.widths.tolist(), branch.gpu_types) for branch in branches]
            for name, branches in answer.solution.branches.items()
        }
    return {name: tuple(_make_path(*row, only_type) for row in of_class) for name, of_class in rows.items()}


def compare_paths(name: str, a: Sequence[Path], b: Sequence[Path]) -> list[Difference]:
    """List shares and widths of a class that both answers have.

    Where there are several paths, those with the most equal epochs are compared, then those of the nearest shares; what
    is left over stands alone.
    """
    pairs = _pair_paths(a, b)
    rows = []
    for number, (left, right) in enumerate(pairs, start=1):
        prefix, place = "", f"classes.{name}.widths"
        if len(pairs) > 1:
            prefix, place = f"path {number}: ", f"classes.{name}.paths[{number}]"
            shares = [None if path is None else path.share for path in (left, right)]
            rows.append(Difference(name, f"{prefix}share of jobs", f"{place}.share", SHARE, *shares))
            place = f"{place}.widths"
        rows += _compare_epochs(name, prefix, place, left.held if left else (), right.held if right else ())
    return rows


def _make_path(share: float, gpus: list[float], gpu_types: tuple[str, ...] | None, only_type: str) -> Path:
    types = gpu_types if gpu_types is not None else (only_type,) * len(gpus)
    return Path(share, tuple(Held(float(count), gpu_type) for count, gpu_type in zip(gpus, types, strict=True)))


def _pair_paths(a: Sequence[Path], b: Sequence[Path]) -> list[tuple[Path | None, Path | None]]:
    """Pair the likest paths first; the pairs are in the order of A, then those of B alone."""

    def unlikeness(pair: tuple[int, int]) -> tuple[int, float, tuple[int, int]]:
        left, right = a[pair[0]], b[pair[1]]
        equal = sum(one == other for one, other in zip(left.held, right.held, strict=False))
        return -equal, abs(left.share - right.share), pair

    partner: dict[int, int] = {}
    for i, j in sorted(((i, j) for i in range(len(a)) for j in range(len(b))), key=unlikeness):
        if i not in partner and j not in partner.values():
            partner[i] = j
    pairs: list[tuple[Path | None, Path | None]] = [
        (path, b[partner[i]] if i in partner else None) for i, path in enumerate(a)
    ]
    return pairs + [(None, path) for j, path in enumerate(b) if j not in partner.values()]


def _compare_epochs(of: str, prefix: str, path: str, a: Sequence[Held], b: Sequence[Held]) -> Iterator[Difference]:
    """Yield one row for each run of epochs in which both answers keep their GPUs."""
    epochs = list(zip_longest(a, b))
    first = 1
    for (left, right), run in groupby(epochs):
        last = first + len(list(run)) - 1
        where = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        place = f"{path}[{first}]" if first == last else f"{path}[{first}..{last}]"
        yield _compare_held(of, prefix, "" if len(epochs) == last - first + 1 else f", {where}", place, left, right)
        first = last + 1


def _compare_held(of: str, prefix: str, where: str, path: str, left: Held | None, right: Held | None) -> Difference:
    types = {held.gpu_type for held in (left, right) if held is not None}
    if len(types) > 1:  # numbers of different GPUs are not subtracted
        words = [
            None if held is None else str(held) if held.gpu_type else count_gpus(held.gpus) for held in (left, right)
        ]
        return Difference(of, f"{prefix}GPUs{where}", path, "", *words, is_range=True)
    (gpu_type,) = types
    numbers = [None if held is None else held.gpus for held in (left, right)]
    name = f"{gpu_type} GPUs" if gpu_type else "GPUs"
    return Difference(of, f"{prefix}{name}{where}", path, GPUS, *numbers, is_range=True)
