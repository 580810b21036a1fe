"""One simulation as data: which trace, under which policy, on which cluster; run alone or as a cell of a sweep."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from optplan.errors import DataError
from optplan.lab.cluster.jobs import Job, Spread
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.naming import is_file, make_policy, plan_path
from optplan.lab.cluster.pollux.beliefs import Knowledge
from optplan.lab.cluster.profiled_jobs import Batch, ProfiledApplication, make_jobs
from optplan.lab.cluster.replaying import replay
from optplan.lab.cluster.world import World
from optplan.lab.traces.sia_choices import Timing
from optplan.lab.traces.sia_profiles import FITTED, INTERPOLATED
from optplan.lab.traces.sia_workloads import read_workload, repeat_workload
from optplan.schema import FrozenModel

#: Raised whenever the same cell comes to other figures: what was simulated before is then simulated again.
REVISION = 2

_Seconds = Annotated[float, Field(ge=0)]
_Nodes = Annotated[int, Field(ge=1, le=1_000_000)]
_Times = Annotated[int, Field(ge=1, le=10_000)]


class Cell(FrozenModel):
    """What is simulated.

    ``workload`` is a CSV in the format of the Sia artifact, ``profiles`` the folder with one folder of profiles per
    application, ``policy`` a name or the path of a BOA plan, as
    :func:`~optplan.lab.cluster.policies.naming.make_policy` has it. ``target`` is of ``pollux-autoscaled``,
    ``knowledge`` what Pollux knows about speeds. Without ``nodes`` they are rented when they are needed. ``slowdown``
    gives times the factor that Sia fitted to its physical cluster; ``timing`` is as in
    :func:`~optplan.lab.traces.sia.derive_epochs`; ``batch`` says whether jobs adapt their batch size, keep that of the
    workload, or choose it by what they have learned. The workload runs ``repeat`` times, one after another.
    """

    workload: str
    profiles: str
    policy: str
    target: str | None = None
    knowledge: Knowledge = Knowledge.TRUTH
    gpu: str = "aws"
    nodes: _Nodes | None = None
    slowdown: bool = False
    timing: Timing = Timing.TABLES
    batch: Batch = Batch.ADAPTED
    repeat: _Times = 1
    node_start_s: _Seconds = 0.0
    price_usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    world: World = World()
    seed: Annotated[int, Field(ge=0)] = 0

    def make_jobs(self) -> tuple[list[Job], int]:
        """Make its jobs; returns them with the GPUs of one node."""
        workload = repeat_workload(read_workload(self.workload), self.repeat, seed=self.seed)
        return make_jobs(
            workload, self.profiles, self.gpu, slowdown=self.slowdown, timing=self.timing, batch=self.batch
        )

    def run(self) -> tuple[Outcome, dict[str, Any]]:
        """Simulate it; return what came of it, and the same as ``optplan simulate cluster --json`` writes it."""
        policy = make_policy(self.policy, target=self.target, knowledge=self.knowledge)
        jobs, gpus_per_node = self.make_jobs()
        outcome = replay(
            jobs,
            policy,
            gpus_per_node=gpus_per_node,
            nodes=self.nodes,
            start_s=self.node_start_s,
            world=self.world,
            seed=self.seed,
        )
        told, price = self.model_dump(mode="json", exclude={"profiles", "policy"}), self.price_usd_per_hour
        return outcome, {
            **told,
            "workload": Path(self.workload).name,
            "plan": Path(self.policy).name if is_file(self.policy) else None,
            "gpus_per_node": gpus_per_node,
            "cost_usd": None if price is None else price * outcome.billed_gpu_hours,
            **outcome.to_json_data(),
            "not_measured": _list_unmeasured(jobs),
        }

    def digest(self, checksums: Checksums) -> str:
        """Return 64 digits that are the same for the same simulation, wherever its files are and are called."""
        policy = self.policy
        if is_file(policy):
            path = plan_path(policy)
            policy = policy.removesuffix(path) + checksums.of_file(path)
        parameters = self.model_dump(mode="json", exclude_defaults=True, exclude={"workload", "profiles", "policy"})
        if self.world.spot_trace:
            parameters["world"]["spot_trace"] = checksums.of_file(self.world.spot_trace)
        parts = (
            REVISION,
            checksums.of_file(self.workload),
            checksums.of_folder(self.profiles),
            policy,
            sorted(parameters.items()),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()


class Checksums:
    """Checksums of files and folders, each taken once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of_file(self, path: str) -> str:
        """Return the SHA-256 of a file."""
        return self._take(path, [Path(path)])

    def of_folder(self, path: str) -> str:
        """Return that of the tables in a folder and below, by their names."""
        return self._take(path, sorted(Path(path).rglob("*.csv")))

    def _take(self, path: str, files: Sequence[Path]) -> str:
        if path not in self._known:
            digest = hashlib.sha256()
            for file in files:
                digest.update(b"" if file == Path(path) else str(file.relative_to(path)).encode())
                try:
                    digest.update(hashlib.sha256(file.read_bytes()).digest())
                except OSError as error:
                    raise DataError(str(file), f"cannot be read ({error.strerror})", "correct the path") from None
            self._known[path] = digest.hexdigest()
        return self._known[path]


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
