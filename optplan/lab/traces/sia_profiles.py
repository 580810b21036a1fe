"""Readers of the Sia and AdaptDL profiles: step times by placement, and learning curves by batch size.

A *placement* says how many GPUs a job has on each node, as the lexicographically smallest rotation of a string of
digits: 4 + 2 GPUs are ``24``. Small clusters were measured placement by placement (``placements-<gpu>.csv``), large
ones for some numbers of nodes and GPUs (``scalability-<gpu>.csv``). The file ``validation-<M>.csv`` is a training run
at batch size M, one row per epoch. See the data README, sections 1.3, 1.4 and 1.6 (a) to (c).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError, nearest_name_hint
from optplan.instances.csv_tables import parse_number, parse_whole, read_rows
from optplan.lab.traces.sia_workloads import GPU_NODES, Application
from optplan.schema import FloatArray, IntArray
from optplan.speedup.goodput import GradientTable

if TYPE_CHECKING:
    from scipy.interpolate import LinearNDInterpolator


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """How an application trains at S batch sizes: ``progress`` (E + 1,), the least of them, ``iterations`` (E, S)."""

    batch_sizes: IntArray
    progress: FloatArray
    iterations: FloatArray
    gradients: GradientTable


def read_learning_curves(profiles_dir: Path | str, application: Application) -> LearningCurves:
    """Read the training runs of an application, its first ``epochs`` epochs, from all files ``validation-<M>.csv``."""
    folder = application_folder(Path(profiles_dir), application.name)
    runs: dict[int, FloatArray] = {}
    for path in folder.glob("validation-*.csv"):
        size = path.stem.removeprefix("validation-")
        if not size.isdecimal():
            raise DataError(str(path), f"{size!r} is not a batch size", "name the file validation-<batch size>.csv")
        runs[int(size)] = _read_run(path, application.epochs)
    sizes = sorted(runs)
    if not sizes or sizes[0] > application.init_batch_size or sizes[-1] < application.max_batch_size:
        problem = (
            f"{application.name} trains at batch sizes {application.init_batch_size} to {application.max_batch_size}; "
            f"there are learning curves (validation-<batch size>.csv) for: {', '.join(map(str, sizes)) or 'none'}"
        )
        raise DataError(str(folder), problem, "fetch the missing files")
    stacked = np.stack([runs[size] for size in sizes], axis=-1)  # (epochs, columns, sizes)
    return LearningCurves(
        batch_sizes=np.array(sizes, dtype=np.int64),
        progress=_growing(folder, "progress", np.append(0.0, stacked[:, 0].min(axis=-1))),
        iterations=np.diff(stacked[:, 1], axis=0, prepend=0.0),
        gradients=GradientTable(batch_sizes=np.array(sizes), grad_sqr=stacked[:, 2], grad_var=stacked[:, 3]),
    )


def _read_run(path: Path, epochs: int) -> FloatArray:
    columns = ("progress", "iteration", "grad_sqr", "grad_var")
    rows = [
        [parse_number(path, line, column, text) for column, text in zip(columns, texts, strict=True)]
        for line, texts in read_rows(path, columns)
    ]
    if len(rows) < epochs:
        problem = f"{len(rows)} rows; one for each of the {epochs} epochs is needed"
        raise DataError(str(path), problem, "fetch the file again; it may be cut off")
    run = np.array(rows[:epochs])
    _growing(path, "iteration", np.append(0.0, run[:, 1]))
    return run


def _growing(path: Path, column: str, values: FloatArray) -> FloatArray:
    """Refuse a column that does not grow in each epoch; the first value is the start."""
    falls = np.flatnonzero(np.diff(values) <= 0.0)
    if falls.size:
        epoch = int(falls[0])
        problem = f"{column} goes from {values[epoch]:.12g} to {values[epoch + 1]:.12g} in epoch {epoch} (from 0)"
        raise DataError(str(path), problem, f"correct the file: {column} must grow in each epoch")
    return values


#: Words for where the step time of a width comes from.
MEASURED, MEASURED_SCALABILITY, INTERPOLATED, FITTED = "measured", "measured-scalability", "interpolated", "fitted"

#: Stands for the suffix of files that have none.
UNNAMED = ""

#: Local batches from which an application runs out of memory although the profile goes on (data README, 1.6 (c)).
_MEMORY_LIMITS = {("deepspeech2", "rtx"): 57}


class CannotRunError(DataError):
    """An application cannot run on a type of GPU, as far as the profiles say."""


@dataclass(frozen=True, eq=False)
class Passes:
    """Measured: nodes, GPUs, samples per GPU (passes, 3); seconds, and the synchronisation in them (passes, 2)."""

    points: IntArray
    times_s: FloatArray

    def average_repeats(self) -> Passes:
        """Return one pass per point, in ascending order of the points, with the mean times of its repeats."""
        points, which = np.unique(self.points, axis=0, return_inverse=True)
        which = which.ravel()
        total = np.column_stack([np.bincount(which, weights=column) for column in self.times_s.T])
        return Passes(points, total / np.bincount(which)[:, None])

    def select(self, which: IntArray | NDArray[np.bool_]) -> Passes:
        """Return some of the passes."""
        return Passes(self.points[which], self.times_s[which])

    def joined(self, other: Passes) -> Passes:
        """Return these passes and the other ones."""
        return Passes(np.concatenate([self.points, other.points]), np.concatenate([self.times_s, other.times_s]))


@dataclass(frozen=True, eq=False)
class ProfileTables:
    """The step times of one application on one type of GPU, by placement and by nodes and GPUs; then all rows."""

    gpus_per_node: int
    placements: Mapping[str, Passes]
    scalability: Mapping[tuple[int, int], Passes]
    placement_passes: Passes
    scalability_passes: Passes
    min_local_batch: int
    max_local_batch: int

    def look_up(self, placement: str) -> tuple[str, Passes | None]:
        """Say where the step times on a placement come from, and give its rows when it was measured."""
        if placement in self.placements:
            return MEASURED, self.placements[placement]
        shape = len(placement), count_gpus(placement)
        if shape in self.scalability:
            return MEASURED_SCALABILITY, self.scalability[shape]
        return (INTERPOLATED if self._local_batches_from(*shape).size else FITTED), None

    def largest_local_batch(self, placement: str) -> int:
        """Return the largest local batch on a placement, of all with as many nodes and GPUs, or of the profile."""
        _, rows = self.look_up(placement)
        shape = len(placement), count_gpus(placement)
        batches = self._local_batches_from(*shape) if rows is None else rows.points[:, 2]
        return min(self.max_local_batch, int(batches.max(initial=0)) or self.max_local_batch)

    def _local_batches_from(self, nodes: int, gpus: int) -> IntArray:
        """Return the local batches of all rows with at least so many nodes and GPUs."""
        parts = (self.placement_passes.points, self.scalability_passes.points)
        return np.concatenate([points[(points[:, 0] >= nodes) & (points[:, 1] >= gpus), 2] for points in parts])

    def interpolate(self, points: IntArray) -> FloatArray:
        """Interpolate (N, k, b) linearly over the mean passes of both tables, as Sia does; NaN outside their hull."""
        if self._triangulated is None:
            return np.full((len(points), 2), np.nan)
        return np.asarray(self._triangulated(points.astype(np.float64)), dtype=np.float64)

    @cached_property
    def _triangulated(self) -> LinearNDInterpolator | None:
        """The interpolation between all passes of both tables; None where they lie in one plane."""
        from scipy.interpolate import LinearNDInterpolator
        from scipy.spatial import QhullError

        parts = self.placement_passes.average_repeats(), self.scalability_passes.average_repeats()
        known = parts[0].joined(parts[1]).average_repeats()
        try:
            return LinearNDInterpolator(known.points.astype(np.float64), known.times_s)
        except QhullError:  # all measurements lie in one plane, say on one number of nodes: it has no inside
            return None


def passes_to_fit(placements: Passes, scalability: Passes) -> Passes:
    """Return all rows of the placements, and those of the scalability whose point (N, k, b) is new."""
    known = {tuple(point) for point in placements.points.tolist()}
    new = np.array([tuple(point) not in known for point in scalability.points.tolist()], dtype=bool)
    return placements.joined(scalability.select(new))


def consolidated_placement(gpus: int, gpus_per_node: int) -> str:
    """Return the placement of k GPUs on as few nodes of at most 9 as possible (data README, section 1.6 (a))."""
    full, rest = divmod(gpus, gpus_per_node)
    return smallest_rotation(str(gpus_per_node) * full + (str(rest) if rest else ""))


def smallest_rotation(placement: str) -> str:
    """Return the lexicographically smallest rotation of a placement: ``42`` becomes ``24``."""
    return min(placement[start:] + placement[:start] for start in range(len(placement)))


def placement_of(counts: Iterable[int]) -> str:
    """Return the placement of so many GPUs on each of some nodes."""
    return smallest_rotation("".join(map(str, counts)))


def count_gpus(placement: str) -> int:
    """Return how many GPUs a placement has."""
    return sum(map(int, placement))


def read_profile_tables(profiles_dir: Path | str, application: Application, gpu: str) -> ProfileTables:
    """Read the step times of one application on one type of GPU; files without a suffix are of any type."""
    folder = application_folder(Path(profiles_dir), application.name)
    known = list_profiled_gpus(profiles_dir, application.name)
    if gpu not in known and known != [UNNAMED]:
        problem = f"{folder} has no profile for GPU type {gpu!r}"
        raise CannotRunError(
            "gpu", problem, f"it has profiles for: {', '.join(filter(None, known))}" if known else "fetch the profiles"
        )
    ending = f"-{gpu}.csv" if gpu in known else ".csv"
    rows_of, in_placements = _read_placements(folder / f"placements{ending}")
    in_scalability = _read_scalability(folder / f"scalability{ending}")
    largest_digit = max(int(digit) for placement in rows_of for digit in placement)
    shapes = in_scalability.points[:, :2]
    local_batches = in_placements.points[:, 2]
    return ProfileTables(
        gpus_per_node=GPU_NODES[gpu].gpus_per_node if gpu in GPU_NODES else largest_digit,
        placements={key: in_placements.select(rows).average_repeats() for key, rows in rows_of.items()},
        scalability={
            (nodes, gpus): in_scalability.select((shapes == (nodes, gpus)).all(axis=1)).average_repeats()
            for nodes, gpus in {tuple(shape) for shape in shapes.tolist()}
        },
        placement_passes=in_placements,
        scalability_passes=in_scalability,
        min_local_batch=int(local_batches.min()),
        max_local_batch=_MEMORY_LIMITS.get((application.name, gpu), int(local_batches.max())),
    )


def application_folder(profiles_dir: Path, name: str) -> Path:
    """Return the folder of an application's files."""
    folder = profiles_dir / name
    if folder.is_dir():
        return folder
    if not profiles_dir.is_dir():
        raise DataError(str(profiles_dir), "there is no such folder", "give the folder with one folder per application")
    there = sorted(path.name for path in profiles_dir.iterdir() if path.is_dir())
    raise DataError(str(profiles_dir), f"has no folder {name!r} with profiles", nearest_name_hint(name, there))


def list_profiled_gpus(profiles_dir: Path | str, application: str) -> list[str]:
    """List the suffixes of profiled types by the alphabet; files without one count as :data:`UNNAMED`, if alone."""
    folder = application_folder(Path(profiles_dir), application)
    named = sorted(path.stem.removeprefix("placements-") for path in folder.glob("placements-*.csv"))
    return named or [UNNAMED] * (folder / "placements.csv").is_file()


def stamp_profiles(profiles_dir: Path | str, application: str) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and time of change of an application's files: what was read holds as long as it is the same."""
    files = sorted(application_folder(Path(profiles_dir), application).glob("*.csv"))
    return tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)


def _read_placements(path: Path) -> tuple[dict[str, IntArray], Passes]:
    """Read passes by placement; return the rows of each, too."""
    keys: list[str] = []

    def locate(line: int, placement: str) -> tuple[int, int]:
        if not placement.isdecimal() or "0" in placement:
            problem = f"placement is {placement!r}; one digit from 1 to 9 per node is needed"
            raise DataError(f"{path}:{line}", problem, "correct the row")
        keys.append(smallest_rotation(placement))
        return len(placement), count_gpus(placement)

    passes = _read_passes(path, ("placement",), locate)
    if not keys:
        raise DataError(str(path), "the file names its columns and holds no measurement", "add one row per measurement")
    known = np.array(keys)
    return {key: np.flatnonzero(known == key) for key in dict.fromkeys(keys)}, passes


def _read_scalability(path: Path) -> Passes:
    def locate(line: int, num_nodes: str, num_replicas: str) -> tuple[int, int]:
        nodes = parse_whole(path, line, "num_nodes", num_nodes)
        gpus = parse_whole(path, line, "num_replicas", num_replicas)
        if gpus < nodes:
            problem = f"num_replicas is {gpus} on {nodes} nodes; at least one GPU per node is needed"
            raise DataError(f"{path}:{line}", problem, "correct the row")
        return nodes, gpus

    return _read_passes(path, ("num_nodes", "num_replicas"), locate)


def _read_passes(path: Path, columns: tuple[str, ...], locate: Callable[..., tuple[int, int]]) -> Passes:
    """Read passes whose first columns say, by line, on how many nodes and GPUs they were."""
    points, times = array("q"), array("d")
    for line, (*place, local_batch, step, sync) in read_rows(path, (*columns, "local_bsz", "step_time", "sync_time")):
        nodes, gpus = locate(line, *place)
        points.extend((nodes, gpus, parse_whole(path, line, "local_bsz", local_batch)))
        step_s = parse_number(path, line, "step_time", step)
        sync_s = parse_number(path, line, "sync_time", sync)
        if sync_s >= step_s:
            problem = f"sync_time is {sync} and step_time {step}; the first is a part of the second"
            raise DataError(f"{path}:{line}", problem, "correct the row")
        times.extend((step_s, sync_s))
    return Passes(np.array(points).reshape(-1, 3), np.array(times).reshape(-1, 2))
