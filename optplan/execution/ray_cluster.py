"""The Ray executor: trials as actors in placement groups of a Ray cluster.

A node of the plan is a placement group of as many GPUs, by its name, so that Ray's autoscaler launches machines for
those that wait and gives machines back that stand idle. An operation is an actor for each worker, in the groups of its
nodes, by its id. Groups and actors are detached: they outlive a driver that is killed, and another one finds them.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optplan.errors import MissingExtraError, UsageError
from optplan.execution.folders import Ending, FolderExecutor, FolderSettings, Running, explain_code
from optplan.execution.protocol import Operation
from optplan.execution.ray_worker import LOG, UNSEEN, Worker
from optplan.execution.records import NodeChanged, NodeWanted
from optplan.execution.state import Phase
from optplan.execution.supervision import is_running, list_homes
from optplan.execution.trial_files import OPERATION, OUTCOME, PROGRESS, STORED, Storage, bound_log, read, write

#: Bytes that a local cluster sets aside for objects; checkpoints go by files, so that hardly any are needed.
_OBJECTS = 100_000_000
#: Seconds after which processes on machines that are gone are taken to have ended, whatever their locks say.
_LINGER_S = 10.0
#: Seconds in which an actor shows what its operation has left.
_SHOW_S = 30.0
#: The calls that actors answer while they run.
_ASIDE = "aside"
#: Seconds in which a cluster has to accept a connection.
_CONNECT_S = 5.0


@dataclass
class _Node:
    """A placement group; the machine that it is on once it is there."""

    group: Any
    resource: str
    machine: str = ""


@dataclass
class _Actors:
    """The actors of an operation, and what each promises to return: the same, however often it is asked to run."""

    actors: list[Any]
    folder: str = ""
    meeting: Any = None
    promises: list[Any] = field(default_factory=list)
    ending: Ending | None = None
    ended_s: float | None = None
    #: Where machines share no folder: the operation, and what the first actor promises to show of it.
    said: Mapping[str, Any] | None = None
    look: Any = None
    #: By file, up to where it was read; who takes over has the progress, and is shown the others again.
    known: dict[str, int] = field(default_factory=dict)

    def ask(self, rank: int) -> Any:  # noqa: ANN401 - Ray's
        return self.actors[rank].run.remote(self.folder, rank, len(self.actors), self.meeting, self.said)

    def ask_aside(self, actor: Any, method: str, *given: object) -> Any:  # noqa: ANN401 - Ray's
        """Ask an actor beside what it runs."""
        return getattr(actor, method).options(concurrency_group=_ASIDE).remote(*given)


class RayExecutor(FolderExecutor[_Actors]):
    """Runs operations as actors."""

    look_s = 0.1

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        super().__init__(gpus_per_node, settings, now_s=now_s)
        self._nodes: dict[str, _Node] = {}
        self._scratch = Path(tempfile.gettempdir()) / f"op-{settings.name}"  # short: it holds sockets
        self._ray = connect(settings, self._scratch)
        if not now_s:  # a run begins once the cluster is there; one that goes on has held its nodes meanwhile
            self._zero = time.monotonic()
        self._storage = Storage(settings.storage) if settings.storage else None
        if self._storage is not None:
            self._checkpoints = self._storage
            if not now_s and not self._storage.is_empty():
                raise UsageError(f"storage: something is stored at {settings.storage}; give another URL for this run")
        self._has_gpus = self._ray.cluster_resources().get("GPU", 0.0) > 0

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Ask for a placement group for each node; it is paid from now on, while Ray launches what it needs."""
        for request in requests:
            if request.node not in self._nodes:
                bundle, how = dict(self._bundle_of(request.resource)), {"name": request.node, "lifetime": "detached"}
                group = self._ray.util.placement_group([bundle], strategy="STRICT_PACK", **how)
                self._nodes[request.node] = _Node(group, request.resource)
                self._events.append(NodeChanged(self.now_s(), request.node, Phase.LAUNCHING))

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Give placement groups back."""
        for name in nodes:
            if name in self._nodes:
                self._ray.util.remove_placement_group(self._nodes.pop(name).group)

    def stop(self, operation: str, grace_s: float) -> None:
        """Ask an operation to store its state and end, on its own machine as well."""
        super().stop(operation, grace_s)
        running = self._running.get(operation)
        if self._storage is not None and running is not None and running.handle is not None:
            for actor in running.handle.actors:
                running.handle.ask_aside(actor, "stop")

    def close(self) -> None:
        """Leave the cluster; one that was made here ends."""
        self._ray.shutdown()
        shutil.rmtree(self._scratch, ignore_errors=True)

    # ---------------------------------------------------------------------------------------------------------- nodes

    def _bundle_of(self, resource: str) -> Mapping[str, float]:
        gpus = float(self._gpus_per_node[resource])
        usual = {"CPU": gpus, "GPU": gpus} if self._has_gpus else {"CPU": gpus}
        return self._settings.setup.nodes.get(resource, usual)

    def _find_nodes(self, nodes: Sequence[NodeWanted]) -> frozenset[str]:
        for request in nodes:
            try:
                group = self._ray.util.get_placement_group(request.node)
            except ValueError:
                continue
            self._nodes[request.node] = _Node(group, request.resource)
        self._look_around()
        return frozenset(self._nodes)

    def _look_around(self) -> None:
        """Find groups that have got their machine, and groups whose machine is gone."""
        for name, node in self._nodes.items():
            if not node.machine:
                table = self._ray.util.placement_group_table(node.group)
                if table.get("state") == "CREATED":
                    node.machine = table["bundles_to_node_id"][0]
                    self._events.append(NodeChanged(self.now_s(), name, Phase.READY))
        alive = {machine["NodeID"] for machine in self._ray.nodes() if machine["Alive"]}
        for name, node in list(self._nodes.items()):
            if node.machine and node.machine not in alive:  # Ray would look for another one, which is ours to decide
                self.release_nodes([name])
                self._events.append(NodeChanged(self.now_s(), name, Phase.LOST, "Ray has lost its machine"))

    # ------------------------------------------------------------------------------------------------------ operations

    def _names_of(self, operation: Operation) -> list[str]:
        """Return the names of an operation's actors, the first worker's first."""
        workers = operation.workers if self._settings.is_joined else 1
        return [operation.id, *(f"{operation.id}/{rank}" for rank in range(1, workers))]

    def _find(self, operation: Operation, folder: Path) -> _Actors | None:
        actors = []
        for name in self._names_of(operation):
            try:
                actors.append(self._ray.get_actor(name))
            except ValueError:
                for actor in actors:  # some of its workers are gone: the others can do nothing without them
                    self._ray.kill(actor)
                self._bring_left(operation.id, folder)
                left = any(map(is_running, list_homes(folder)))
                return _Actors([], ended_s=self.now_s()) if left else None
        return self._begin(actors, folder)

    def _launch(self, operation: Operation, folder: Path, log: Path) -> _Actors:  # noqa: ARG002 - the operation has it
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        places = [
            (node, operation.gpus_per_worker)
            for node, gpus in operation.place.items()
            for _ in range(gpus // operation.gpus_per_worker)
        ]
        if not self._settings.is_joined:
            if len(operation.place) > 1:
                why = f"has GPUs on {len(operation.place)} nodes, and is one process: give --launcher torchrun"
                return _Actors([], ending=Ending(why, hopeless=True))
            places = list(operation.place.items())
        actor_class, actors = self._ray.remote(concurrency_groups={_ASIDE: 1})(Worker), []
        image = self._settings.setup.image
        for name, (place, gpus) in zip(self._names_of(operation), places, strict=True):
            node = self._nodes[place]
            part = gpus / self._gpus_per_node[node.resource]
            share = {what: many * part for what, many in self._bundle_of(node.resource).items()}
            options = actor_class.options(
                name=name,
                lifetime="detached",
                get_if_exists=True,
                max_restarts=0,
                num_cpus=share.pop("CPU", 0),
                num_gpus=share.pop("GPU", 0),
                resources=share,
                scheduling_strategy=PlacementGroupSchedulingStrategy(node.group, 0),
                runtime_env={"image_uri": image} if image else {},
            )
            actors.append(options.remote())
        return self._begin(actors, folder)

    def _begin(self, actors: list[Any], folder: Path) -> _Actors:
        """Ask actors to run, and those that do so already to say when they have ended."""
        meeting = actors[0].meet.remote() if len(actors) > 1 else None
        own = _Actors(actors, str(folder.resolve()), meeting)
        if self._storage is not None:
            own.said, progress = read(folder / OPERATION), folder / PROGRESS
            own.known[PROGRESS] = progress.stat().st_size if progress.is_file() else 0
        own.promises = [own.ask(rank) for rank in range(len(actors))]
        return own

    # ------------------------------------------------------------------------------- where machines share no folder

    def _look_at(self, running: Running[_Actors]) -> None:
        """Bring what the first actor shows of its folder, and look at that."""
        own = running.handle
        if self._storage is not None and own is not None and own.actors and own.ending is None:
            if own.look is None:
                own.look = own.ask_aside(own.actors[0], "look", own.known)
            if self._ray.wait([own.look], timeout=0)[0]:
                self._bring(running, own)
        super()._look_at(running)

    def _bring(self, running: Running[_Actors], own: _Actors) -> None:
        """Write down what an actor has shown, in the order in which an operation writes it."""
        look, own.look = own.look, None
        try:
            found: dict[str, tuple[int, bytes]] = self._ray.get(look, timeout=_SHOW_S)
        except self._ray.exceptions.RayError:  # it is gone, which others notice
            return
        log = self._log_of(running.operation.trial)
        for name, (at, content) in found.items():
            path = log if name == LOG else running.folder / name
            with path.open("ab" if name in (PROGRESS, LOG) else "wb") as file:
                file.write(content)
            own.known[name] = at
        bound_log(log)

    def _bring_left(self, operation: str, folder: Path) -> None:
        """Bring what an operation has left at its URL, as its actor cannot show it any more."""
        if self._storage is not None and not (folder / OUTCOME).exists():
            for name in (STORED, OUTCOME):
                left = self._storage.read(f"operations/{operation}/{name}")
                if left is not None:
                    write(folder / name, json.loads(left))

    # ---------------------------------------------------------------------------------------------------------- endings

    def _is_alive(self, running: Running[_Actors]) -> bool:
        own = running.handle
        if own is None:
            return False
        if own.ended_s is None and own.ending is None and self._is_working(running, own):
            return True
        # What actors have started ends with them; where their machine is gone, nobody may be there to say so.
        own.ended_s = self.now_s() if own.ended_s is None else own.ended_s
        is_late = self.now_s() >= own.ended_s + _LINGER_S
        lost = is_late and any(node not in self._nodes for node in running.operation.place)
        return not lost and any(map(is_running, list_homes(running.folder)))

    def _is_working(self, running: Running[_Actors], own: _Actors) -> bool:
        """Whether actors have not returned yet."""
        ended, waiting = self._ray.wait(own.promises, num_returns=len(own.promises), timeout=0)
        for promise in ended:
            try:
                code: int = self._ray.get(promise)
            except self._ray.exceptions.ActorUnavailableError:  # nobody knows yet whether it lives
                rank = own.promises.index(promise)
                own.promises[rank] = own.ask(rank)
                waiting.append(own.promises[rank])
            except self._ray.exceptions.RayError as error:
                own.ending = own.ending or self._explain_loss(running, error)
            else:
                own.ending = own.ending or _read_code(code, running)
        if waiting and own.ending is None:
            return True
        if self._storage is not None:
            own.look = own.ask_aside(own.actors[0], "look", own.known)
            self._bring(running, own)
            self._bring_left(running.operation.id, running.folder)
            gone = [own.ask_aside(actor, "discard") for actor in own.actors]
            self._ray.wait(gone, num_returns=len(gone), timeout=_SHOW_S)
        self._kill(running)  # those that have ended would wait for another call, and hold their GPUs
        return False

    def _explain_loss(self, running: Running[_Actors], error: Exception) -> Ending:
        """Say why an actor is gone; a trial is not to blame for its node."""
        self._look_around()
        lost = [node for node in running.operation.place if node not in self._nodes]
        if lost:
            return Ending(f"its node {lost[0]} was lost", blameless=True)
        return Ending(f"its actor died ({str(error).strip().splitlines()[0]})")

    def _kill(self, running: Running[_Actors]) -> None:
        for actor in running.handle.actors if running.handle is not None else ():
            self._ray.kill(actor)

    def _explain(self, running: Running[_Actors]) -> Ending:
        own = running.handle
        return super()._explain(running) if own is None or own.ending is None else own.ending


def connect(settings: FolderSettings, scratch: Path | None = None) -> Any:  # noqa: ANN401 - Ray's module
    """Connect this process to a run's cluster, and return the module of Ray.

    Without an address it is one that is made here, with its files in ``scratch``.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtraError("ray", "ray") from None
    address, namespace = settings.address, f"optplan-{settings.name}"
    quiet: dict[str, Any] = {"namespace": namespace, "log_to_driver": False, "logging_level": "ERROR"}
    if ray.is_initialized():
        raise UsageError("executor: this process is connected to a Ray cluster already; call ray.shutdown() first")
    if address not in ("", "auto"):
        _require_listener(address)
    try:
        if scratch is None or address:
            ray.init(address=address, **quiet)
        else:
            shutil.rmtree(scratch, ignore_errors=True)  # of a driver that was killed
            scratch.mkdir(mode=0o700)
            here = {"include_dashboard": False, "_temp_dir": str(scratch), "object_store_memory": _OBJECTS}
            ray.init(address="local", num_cpus=settings.slots or 1, **here, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(f"address: no Ray cluster at {address or 'this machine'} ({reason})") from None
    return ray


def _require_listener(address: str) -> None:
    """Refuse an address at which nobody listens: Ray would try it for minutes, whatever signal it gets."""
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not port.isdecimal():
        raise UsageError(f"address: got {address!r}; run on a machine of the cluster, and give HOST:PORT or auto")
    try:
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"address: no Ray cluster at {address!r} ({error}); is it up?") from None


def _read_code(code: int, running: Running[_Actors]) -> Ending | None:
    """Say what is wrong with what an actor has returned; None where nothing is."""
    if code == UNSEEN:
        why = f"{running.folder} is not there on its machine: put --out into a folder that all machines share"
        return Ending(why, hopeless=True)
    return explain_code(code) if code else None
