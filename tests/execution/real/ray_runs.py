"""Runs of ``optplan run --executor ray`` on clusters made in this machine: ``ray_runs.py FOLDER CASE``.

``test_ray_runs.py`` starts it in a network of its own, and reads what it leaves in the folder.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import AutoscalingCluster, Cluster

#: Bytes that Ray sets aside for objects on a node, and seconds for which anything is waited for.
MEMORY = 80_000_000
PATIENCE_S = 300.0
#: Ports that Ray's agents would like to have.
PORTS = (8265, 44217, 44227, 52365)
#: The plans' times are not those of the trials: without this the rest would be planned anew.
FOLLOW = ("--replan-above", "never")
#: Processes of a cluster.
SERVERS = {"gcs_server", "raylet"}
#: Who is killed at a time; how often in all (a fifth of all kills, see ``test_kills.py``), and of a run.
VICTIMS = (
    ("driver",),
    ("node",),
    ("actor",),
    ("supervisor",),
    ("deputy",),
    ("work",),
    ("supervisor", "deputy"),
    ("driver", "actor"),
    ("driver", "work"),
    ("driver", "node"),
)
KILLS, KILLS_OF_A_RUN = int(os.environ.get("OPTPLAN_KILLS", "100")) // 5, 5
#: The trial that descends fastest.
FAST = "b1-s1-trials-0002"


class Runs:
    """Starts drivers in a folder.

    Parameters
    ----------
    folder
        Has a plan, a space, and ``train`` with what to train.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = (folder / "drivers.log").open("w", encoding="utf-8")

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a run in ``FOLDER/NAME``."""
        target = (self.folder / "train").read_text(encoding="utf-8")
        given = [str(self.folder / "plan.json"), "--train", target, "--space", str(self.folder / "space.json")]
        return self._start(*given, "--executor", "ray", "--out", str(self.folder / name), *FOLLOW, *options)

    def resume(self, name: str) -> subprocess.Popen[bytes]:
        """Go on with a run."""
        return self._start("--resume", str(self.folder / name))

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "optplan.cli", "run", *options]
        return subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def count_lines(self, name: str, trial: str = "*", stage: str = "b1-s1") -> list[int]:
        """Return how many iterations the operations of a stage have reported; who goes on deletes what was there."""
        counts = []
        for path in sorted((self.folder / name).glob(f"operations/*.{stage}.{trial}.*/progress.jsonl")):
            with suppress(FileNotFoundError):
                counts.append(len(path.read_text(encoding="utf-8").splitlines()))
        return counts

    def are_under_way(self, name: str, iterations: int, attempt: int) -> bool:
        """Whether all operations of an attempt at stage 1 were started, and have done so many iterations."""
        folders = list((self.folder / name).glob(f"operations/*.b1-s1.*.{attempt}"))
        progress = [folder / "progress.jsonl" for folder in folders]
        started = [path for path in progress if path.is_file() and path.read_bytes().count(b"\n") >= iterations]
        return len(started) == 4

    def has_done(self, name: str, lines: int) -> bool:
        """Whether the operations of all stages have reported so many iterations."""
        return sum(self.count_lines(name, stage="*")) >= lines

    def count_outcomes(self, name: str) -> int:
        """Return how many operations of stage 1 have ended in good order."""
        return len(list((self.folder / name).glob("operations/*.b1-s1.*/outcome.json")))


def wait_until(holds: Callable[[], Any], what: str) -> None:
    """Wait until something holds."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(0.05)


def end(driver: subprocess.Popen[bytes]) -> None:
    """Wait until a driver has ended in good order."""
    assert driver.wait(PATIENCE_S) == 0, driver.returncode


@contextlib.contextmanager
def two_nodes() -> Iterator[Cluster]:
    """Make a cluster of two nodes of two CPUs, and a head without any."""
    head = {"num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=2, object_store_memory=MEMORY)
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def require_nothing_left() -> None:
    """Look for actors and placement groups that a run has left behind."""
    assert ray.util.list_named_actors(all_namespaces=True) == []
    states = {group["state"] for group in ray.util.placement_group_table().values()}
    assert states == {"REMOVED"}, states


def mishaps(runs: Runs) -> None:
    """Kill a driver, interrupt one, kill an actor, and a node, each in a run of its own."""
    with two_nodes() as cluster:
        address = ("--address", cluster.address)
        driver = runs.start("driver", *address)
        wait_until(lambda: min(runs.count_lines("driver"), default=0) > 1, "progress")
        driver.kill()
        driver.wait()
        assert runs.count_outcomes("driver") == 0
        wait_until(lambda: runs.count_outcomes("driver") == 4, "actors to go on without a driver")
        end(runs.resume("driver"))
        require_nothing_left()

        driver = runs.start("early", *address)
        wait_until(lambda: ray.util.list_named_actors(all_namespaces=True), "an actor")
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        end(runs.resume("early"))
        require_nothing_left()

        driver = runs.start("interrupted", *address)
        wait_until(lambda: min(runs.count_lines("interrupted"), default=0) > 1, "progress")
        driver.send_signal(signal.SIGINT)
        assert driver.wait(PATIENCE_S) == 130
        require_nothing_left()
        end(runs.resume("interrupted"))
        require_nothing_left()

        driver = runs.start("actor", *address)
        wait_until(lambda: min(runs.count_lines("actor", FAST), default=0) > 1, "progress")
        own = [each for each in ray.util.list_named_actors(all_namespaces=True) if FAST in each["name"]]
        ray.kill(ray.get_actor(own[0]["name"], own[0]["namespace"]))
        end(driver)
        require_nothing_left()

        driver = runs.start("node", *address)
        wait_until(lambda: len(runs.count_lines("node")) == 4, "progress")
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
        cluster.add_node(num_cpus=2, object_store_memory=MEMORY)
        end(driver)
        require_nothing_left()


def list_groups() -> list[psutil.Process]:
    """Return the processes that supervise operations, and what they have forked; all here belong to the test."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "optplan.execution.supervision" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def hold(found: list[psutil.Process]) -> bool:
    """Have processes stand still, so that all are there when the first is killed; let them go where one has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in found:
            process.suspend()
        if all(process.status() != psutil.STATUS_ZOMBIE for process in found):
            return True
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    return False


def strike(driver: subprocess.Popen[bytes], cluster: Cluster, dice: random.Random) -> tuple[str, ...]:
    """Kill a driver, an actor, what supervises an operation, what it does, a node, or several; say who was hit."""
    victims, groups, found = dice.choice(VICTIMS), list_groups(), list[psutil.Process]()
    dice.shuffle(groups)
    for process in groups:
        with contextlib.suppress(psutil.Error, IndexError):
            deputy = process.children()[0]
            work, actor = deputy.children()[0], psutil.Process(process.ppid())
            who = {"actor": actor, "supervisor": process, "deputy": deputy, "work": work}
            found = [who[victim] for victim in victims if victim in who]
            break
    assert driver.poll() is None
    if "node" in victims:
        cluster.remove_node(dice.choice(cluster.list_all_nodes()[1:]), allow_graceful=False)
        cluster.add_node(num_cpus=2, object_store_memory=MEMORY)
    elif victims != ("driver",) and not found:
        return ()
    if not hold(found):
        return ()
    for process in found:
        process.kill()
    if "driver" in victims:
        driver.send_signal(dice.choice((signal.SIGKILL, signal.SIGTERM)))
    return victims


def orphaned(runs: Runs, address: tuple[str, ...]) -> None:
    """Kill a driver, and leave its run alone until nothing is left of it."""
    driver = runs.start("orphan", *address, "--orphan-after", "3s")
    wait_until(lambda: min(runs.count_lines("orphan"), default=0) > 1, "progress")
    driver.kill()
    driver.wait()
    wait_until(lambda: not list_groups(), "trials without a driver to end")
    assert runs.count_outcomes("orphan") == 4
    wait_until(lambda: not ray.util.list_named_actors(all_namespaces=True), "their actors to go")
    require_nothing_left()
    end(runs.resume("orphan"))
    require_nothing_left()


def killed(runs: Runs) -> None:
    """Kill somebody of a few runs again and again, whenever there was progress; all of them come to their end."""
    dice, hits = random.Random(3), list[str]()
    with two_nodes() as cluster:
        address = ("--address", cluster.address)
        orphaned(runs, address)
        while len(hits) < KILLS:
            name = f"killed-{len(hits)}"
            driver = runs.start(name, *address, "--retries", "100")
            for _ in range(KILLS_OF_A_RUN):
                wanted = sum(runs.count_lines(name, stage="*")) + dice.randint(1, 4)
                wait_until(partial(runs.has_done, name, wanted), "progress")
                victims: tuple[str, ...] = ()
                while not victims:
                    victims = strike(driver, cluster, dice)
                hits.append(" and ".join(victims))
                if "driver" in victims:
                    if driver.wait(PATIENCE_S) == 128 + signal.SIGTERM:
                        require_nothing_left()
                    driver = runs.resume(name)
            end(driver)
            require_nothing_left()
            assert list_groups() == []
    (runs.folder / "hits").write_text("\n".join(hits), encoding="utf-8")


def workers(runs: Runs) -> None:
    """Train with several workers, on one node and on two."""
    with two_nodes() as cluster:
        end(runs.start("workers", "--address", cluster.address, "--launcher", "torchrun"))
        require_nothing_left()


def list_servers() -> list[psutil.Process]:
    """Return the processes of clusters that run; nobody asks here for the end of those that have ended."""
    running = psutil.process_iter(["name", "status"])
    return [each for each in running if each.info["name"] in SERVERS and each.info["status"] != "zombie"]


def list_workers() -> list[psutil.Process]:
    """Return the processes of clusters that run, those of trials included."""
    running = psutil.process_iter(["cmdline"])
    return [each for each in running if any("ray::" in part for part in each.info["cmdline"] or ())]


def here(runs: Runs) -> None:
    """Make a cluster for a run, where others have the ports that Ray likes; it ends when its driver is killed."""
    with contextlib.ExitStack() as taken:
        for port in PORTS:
            taken.enter_context(socket.create_server(("127.0.0.1", port)))
        driver = runs.start("here")
        wait_until(lambda: min(runs.count_lines("here"), default=0) > 1, "progress")
        driver.kill()
        driver.wait()
        wait_until(lambda: not list_servers(), "the cluster to end")
        wait_until(lambda: not list_groups(), "its trials to end")
        end(runs.resume("here"))


def often(runs: Runs) -> None:
    """Kill drivers in stage 1, twice each, and the cluster that they have made at once: Ray itself takes its time."""
    for moment in (0, 2):
        name = f"often-{moment}"
        driver = runs.start(name)
        for attempt in (1, 2):
            held = (name, moment, attempt)
            wait_until(lambda held=held: runs.are_under_way(*held), "progress")  # type: ignore[misc]
            driver.kill()
            assert driver.wait() == -signal.SIGKILL
            for process in [*list_workers(), *list_servers()]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            wait_until(lambda: not list_workers() + list_servers(), "the cluster to end")
            assert runs.count_outcomes(name) == 0
            driver = runs.resume(name)
        end(driver)


class Provider(AutoscalingCluster):
    """A cluster whose autoscaler starts processes for machines; Ray's wheels lack the file with its settings."""

    def _generate_config(
        self,
        head_resources: dict[str, Any],
        worker_node_types: dict[str, Any],
        autoscaler_v2: bool = False,  # noqa: ARG002 - Ray's
        **others: Any,  # noqa: ANN401 - Ray's
    ) -> dict[str, Any]:
        head = {"resources": head_resources, "node_config": {}, "max_workers": 0}
        flags = ("use_node_id_as_ip", "disable_node_updaters", "disable_launch_config_check")
        lists = (
            "initialization_commands",
            "setup_commands",
            "head_setup_commands",
            "worker_setup_commands",
            "head_start_ray_commands",
            "worker_start_ray_commands",
            "cluster_synced_files",
            "rsync_exclude",
            "rsync_filter",
        )
        return {
            "cluster_name": "here",
            "max_workers": 2,
            "provider": {"type": "fake_multinode", **dict.fromkeys(flags, True)},
            "available_node_types": {**worker_node_types, "ray.head.default": head},
            "head_node_type": "ray.head.default",
            "upscaling_speed": 1.0,
            "file_mounts_sync_continuously": False,
            **{name: {} for name in ("auth", "docker", "file_mounts")},
            **{name: [] for name in lists},
            **others,
        }


@contextlib.contextmanager
def provide(runs: Runs) -> Iterator[None]:
    """Have a cluster whose autoscaler launches nodes of 2 CPUs, some of them fast, and be connected to it."""
    launcher = runs.folder / "bin" / "ray"  # the one of this Python
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m ray.scripts.scripts "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    os.environ["PATH"] = f"{launcher.parent}:{os.environ['PATH']}"
    resources = {"CPU": 2, "object_store_memory": MEMORY}
    limits = {"node_config": {}, "min_workers": 0, "max_workers": 2}
    kinds = {"cpu": {"resources": resources, **limits}, "fast": {"resources": {**resources, "fast": 4}, **limits}}
    cluster = Provider({"CPU": 0, "object_store_memory": MEMORY}, kinds, idle_timeout_minutes=0.1)
    cluster.start()
    try:
        ray.init(address="auto", log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def autoscaled(runs: Runs) -> None:
    """Let Ray's autoscaler launch nodes and give them back."""
    setup = runs.folder / "setup.json"
    setup.write_text('{"nodes": {"gpu": {"CPU": 2, "fast": 4}}}', encoding="utf-8")
    with provide(runs):
        seen = [count_machines()]
        driver = runs.start("autoscaled", "--address", "auto", "--setup", str(setup))
        while driver.poll() is None:
            seen.append(count_machines())
            time.sleep(0.5)
        end(driver)
        wait_until(lambda: count_machines() == 0, "the autoscaler to give machines back")
        require_nothing_left()
        changes = [now for before, now in zip([-1, *seen], seen, strict=False) if now != before]
        (runs.folder / "machines").write_text(" ".join(map(str, changes)), encoding="utf-8")


def streamed(runs: Runs) -> None:
    """Serve a stream; the autoscaler launches machines for its nodes, and has none at the end."""
    names = ("plan.json", "jobs.json")
    given = [str(runs.folder / name) for name in names]
    target = (runs.folder / "train").read_text(encoding="utf-8")
    options = ["--train", target, "--executor", "ray", "--address", "auto", "--gpus-per-node", "2"]
    command = [sys.executable, "-m", "optplan.cli", "run", *given, *options, "--out", str(runs.folder / "stream")]
    with provide(runs):
        end(subprocess.Popen(command, stdout=runs.log, stderr=runs.log))
        wait_until(lambda: not any_cpus(), "the autoscaler to give machines back")


def any_cpus() -> bool:
    """Whether a machine with CPUs is there."""
    return any(machine["Alive"] and machine["Resources"].get("CPU") for machine in ray.nodes())


def count_machines() -> int:
    """Return how many machines there are that have CPUs; none of them is a slow one."""
    there = [machine["Resources"] for machine in ray.nodes() if machine["Alive"] and machine["Resources"].get("CPU")]
    assert all("fast" in resources for resources in there)
    return len(there)


if __name__ == "__main__":
    cases = {each.__name__: each for each in (mishaps, killed, workers, here, often, autoscaled, streamed)}
    cases[sys.argv[2]](Runs(Path(sys.argv[1])))
