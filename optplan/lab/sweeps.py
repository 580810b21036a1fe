"""Simulations as data, and many of them at once: spread over processors or machines, one file for each, none run twice.

Each cell's file is named after its trace, its policy and a digest of all that decides its figures: the content of its
files, its parameters, and the revision of the simulator. So a sweep that was interrupted goes on where it was, one that
was changed runs what is new, and what two sweeps share is run once if they share a folder.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from optplan.errors import DataError, OptplanError, OutputError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import format_json, is_path, read_instance, write_text
from optplan.instances.job_traces import JobTrace, draw_trace, read_trace
from optplan.instances.library import names
from optplan.instances.plain_data import read_data
from optplan.lab.cluster.bounding import tell_least
from optplan.lab.cluster.jobs import Job, Spread
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.naming import make_policy, split_file, tell_arrivals
from optplan.lab.cluster.profiled_jobs import ProfiledApplication
from optplan.lab.cluster.profiled_jobs import make_jobs as make_profiled_jobs
from optplan.lab.cluster.replaying import replay
from optplan.lab.cluster.traced_jobs import count_gpus, make_jobs
from optplan.lab.cluster.world import World
from optplan.lab.fields import CellFields
from optplan.lab.traces.sia import Timing
from optplan.lab.traces.sia_profiles import FITTED, INTERPOLATED
from optplan.lab.traces.sia_workloads import read_workload, repeat_workload
from optplan.parallel import Engine, spread
from optplan.progress import Listener, Stopwatch
from optplan.schema import FrozenModel

#: Raised whenever the same cell comes to other figures: what was simulated before is then simulated again.
REVISION = 4

_Nodes = Annotated[int, Field(ge=1, le=1_000_000)]

#: The type of Sia's nodes unless another is named.
_GPU = "aws"
#: Fields that have a meaning only with profiles, and only without.
_OF_PROFILES = frozenset({"slowdown", "timing", "batch", "repeat"})
_OF_INSTANCES = frozenset({"instance", "draw_jobs", "draw_span_s", "gpus_per_node"})


def take_checksum(path: str) -> str:
    """Return the SHA-256 of a file or an instance of the library, or of the tables in a folder, by their names."""
    if not is_path(path) and path in names():
        return hashlib.sha256(format_json(read_instance(path).to_json_data()).encode()).hexdigest()
    digest = hashlib.sha256()
    for file in sorted(Path(path).rglob("*.csv")) if Path(path).is_dir() else [Path(path)]:
        digest.update(b"" if file == Path(path) else str(file.relative_to(path)).encode())
        try:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        except OSError as error:
            raise DataError(str(file), f"cannot be read ({error.strerror})", "correct the path") from None
    return digest.hexdigest()


class Cell(FrozenModel, CellFields):
    """What is simulated: a workload of Sia's with its profiles, a jobs table with its instance, or drawn jobs."""

    # ``policy`` is as :func:`~optplan.lab.cluster.policies.naming.make_policy` has it. Without ``nodes`` they are
    # rented.

    workload: str
    profiles: str | None = None
    instance: str | None = None
    draw_jobs: Annotated[int, Field(ge=1)] | None = None
    draw_span_s: Annotated[float, Field(gt=0)] | None = None
    policy: str
    gpu: str | None = None
    nodes: _Nodes | None = None
    slowdown: bool = False
    timing: Timing = Timing.TABLES
    world: World = World()
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _check(self) -> Cell:
        """Refuse what would change nothing."""
        if self.profiles is not None:
            useless, why = _OF_INSTANCES, "the profiles (--profiles) say it"
        elif self.instance is not None:
            useless, why = _OF_PROFILES | {"draw_jobs", "draw_span_s"}, "the jobs are those of a table (--instance)"
        else:
            useless, why = _OF_PROFILES, "it belongs to a workload of Sia's, with its profiles (--profiles)"
        for field in sorted(useless & self.model_fields_set):
            if getattr(self, field) != type(self).model_fields[field].default:
                raise DataError(field, f"got {getattr(self, field)}, and {why}", "leave it out")
        return self

    def read(self) -> tuple[BoaInstance, JobTrace]:
        """Read or draw the trace of a cell without profiles, and its instance."""
        instance = read_instance(self.workload if self.instance is None else self.instance, BoaInstance)
        if self.instance is not None:
            return instance, read_trace(self.workload, instance)
        return instance, draw_trace(instance, jobs=self.draw_jobs, span_s=self.draw_span_s, seed=self.seed)

    def make_jobs(self) -> tuple[list[Job], int, float]:
        """Make its jobs; returns them with the GPUs of one node, and the seconds until a node can be used."""
        if self.profiles is None:
            instance, trace = self.read()
            jobs, gpus_per_node = (
                make_jobs(instance, trace, self.gpu),
                count_gpus(instance, self.gpu, self.gpus_per_node),
            )
            start_s = instance.gpu_types[self.gpu or instance.only_gpu_type].start_s
        else:
            workload, start_s = repeat_workload(read_workload(self.workload), self.repeat, seed=self.seed), None
            how: dict[str, Any] = {"slowdown": self.slowdown, "timing": self.timing, "batch": self.batch}
            jobs, gpus_per_node = make_profiled_jobs(workload, self.profiles, self.gpu or _GPU, **how)
        return jobs, gpus_per_node, (start_s or 0.0) if self.node_start_s is None else self.node_start_s

    def run(self) -> tuple[Outcome, dict[str, Any]]:
        """Simulate it; return what came of it, and the same as ``optplan simulate cluster --json`` writes it."""
        policy = make_policy(self.policy, knowledge=self.knowledge)
        jobs, gpus_per_node, start_s = self.make_jobs()
        outcome = replay(
            jobs,
            policy,
            gpus_per_node=gpus_per_node,
            nodes=self.nodes,
            start_s=start_s,
            world=self.world,
            seed=self.seed,
        )
        told, price = self.model_dump(mode="json", exclude={"profiles", "policy"}), self.price_usd_per_hour
        return outcome, {
            **told,
            "workload": Path(self.workload).name,
            "instance": None if self.instance is None else Path(self.instance).name,
            "gpu": self.gpu or (None if self.profiles is None else _GPU),
            "node_start_s": start_s,
            "plan": Path(self.policy).name if split_file(self.policy)[1] else None,
            "gpus_per_node": gpus_per_node,
            "cost_usd": None if price is None else price * outcome.billed_gpu_hours,
            **outcome.to_json_data(),
            "not_measured": _list_unmeasured(jobs),
            "arrivals": tell_arrivals(self.policy, outcome.jobs),
        }

    def digest(self, checksum: Callable[[str], str] = take_checksum) -> str:
        """Return 64 digits that are the same for the same simulation, wherever its files are and are called."""
        policy, (_, path) = self.policy, split_file(self.policy)
        if path:
            policy = policy.removesuffix(path) + checksum(path)
        files = {"workload", "profiles", "instance", "policy"}
        parameters = self.model_dump(mode="json", exclude_defaults=True, exclude=files)
        if self.world.spot_trace:
            parameters["world"]["spot_trace"] = checksum(self.world.spot_trace)
        beside = self.profiles if self.instance is None else self.instance
        parts = (
            REVISION,
            checksum(self.workload),
            None if beside is None else checksum(beside),
            policy,
            sorted(parameters.items()),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _list_unmeasured(jobs: Sequence[Job]) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """List by application how GPUs were spread where no measurement of that says how fast it is, by what says it."""
    found: dict[str, dict[str, set[Spread]]] = {}
    for truth, name in {job.truth: job.application for job in jobs}.items():
        if isinstance(truth, ProfiledApplication):
            for spread, word in truth.provenance.items():
                if word in {INTERPOLATED, FITTED}:
                    found.setdefault(name, {}).setdefault(word, set()).add(spread)
    return {
        name: {word: ["+".join(map(str, spread)) for spread in sorted(spreads)] for word, spreads in by_word.items()}
        for name, by_word in sorted(found.items())
    }


#: Digits of the digest in a file's name; all of it stands in the file.
_DIGITS = 12
_REMOVE = "remove it, and it is simulated again"


def run(
    cells: Sequence[Cell],
    folder: Path | str,
    processes: int | None = None,
    *,
    engine: Engine | str = Engine.PROCESSES,
    on_event: Listener | None = None,
) -> list[dict[str, Any]]:
    """Run the cells of a sweep, each in its file; those whose file is there already are read.

    With 1 of ``processes`` cells run in this process; None takes one for each processor. Returns by cell what ``optplan
    simulate cluster --json`` writes, with ``digest`` and ``cpu_s``, seconds of processor time. Where cells fail, the
    first's error is raised once all others are done and written.
    """
    watch, checksum = Stopwatch(listener=on_event), cache(take_checksum)
    places = [_place(Path(folder), cell, cell.digest(checksum)) for cell in cells]
    missing = {path: (cell, digest) for cell, (path, digest) in zip(cells, places, strict=True) if not path.is_file()}
    if missing:
        _require_folder(Path(folder))
    failed: list[tuple[Cell, OptplanError]] = []
    total = len(set(places))
    done = total - len(missing)
    watch.emit(f"{done} of {total} cells", fraction=done / max(1, total))
    waiting = {path: cell for path, (cell, _) in missing.items()}
    for path, answer in spread(_run_cell, waiting, processes, engine=engine):
        cell, digest = missing[path]
        if isinstance(answer, OptplanError):
            failed.append((cell, answer))
            continue
        write_text(format_json({"digest": digest, **answer}) + "\n", path, overwrite=True)
        done += 1
        watch.emit(f"{done} of {total} cells", fraction=done / total)
    if failed:
        cell, error = failed[0]
        error.add_note(f"in {len(failed)} of {total} cells, first {Path(cell.workload).name} under {cell.policy}")
        raise error
    return [_read(path, digest) for path, digest in places]


def _require_folder(folder: Path) -> None:
    """Make the folder, and write something there that is gone at once."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"{folder}: no results can be written there ({error.strerror}); give another folder"
        ) from None


def _read(path: Path, digest: str) -> dict[str, Any]:
    """Read what came of a cell; its file may have been cut short, or be that of something else."""
    try:
        told = read_data(path)
    except DataError as error:
        raise DataError(str(path), f"cannot be read as a result ({error.problem})", _REMOVE) from None
    if not isinstance(told, dict) or told.get("digest") != digest:
        raise DataError(str(path), "is not the result of this simulation", _REMOVE)
    return told


def _place(folder: Path, cell: Cell, digest: str) -> tuple[Path, str]:
    policy = Path(cell.policy).stem if Path(cell.policy).suffix else cell.policy
    words = re.sub(r"[^\w.-]+", "-", f"{Path(cell.workload).stem}-{policy}")
    return folder / f"{words}-{digest[:_DIGITS]}.json", digest


def _run_cell(cell: Cell) -> dict[str, Any] | OptplanError:
    """Run a cell; an error of the user's data is an answer too, so that others go on."""
    start = time.process_time()
    try:
        outcome, data = cell.run()
        return {"cpu_s": time.process_time() - start, **data, **tell_least(outcome, cell.world)}
    except OptplanError as error:
        return error
