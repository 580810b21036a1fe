"""What a training script of a watched fleet says and hears: import it, or copy this file, which needs nothing else.

.. code-block:: python

    with Member() as member:                       # reports from now on
        torch.distributed.init_process_group(..., rank=member.rank, world_size=member.world_size)
        state = member.restore()                   # the stored state on all ranks, None at the beginning
        ...
        member.save_with(lambda path: torch.save({...}, path))
        for iteration in member.iterations():      # those that are left
            ...                                    # member.batch samples from member.first_sample on
            (member.loss_weight * loss).backward()
            with member.update(loss=loss.item()):  # nothing is stored while weights change
                optimizer.step()

The folder of the fleet is in ``OPTPLAN_FLEET``, the rank in ``RANK``. Lines are appended whole, files come by rename.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: Names in the folder of a fleet.
OPERATION, RANKS, ORDERS, STOP, CHECKPOINTS = "operation.json", "ranks", "orders", "stop", "checkpoints"
#: Exit code of a rank that was told to end.
TOLD = 75
#: Looks at the orders in a heartbeat.
_LOOKS = 4


class Member:
    """A rank of a fleet.

    Parameters
    ----------
    folder, rank
        Of the fleet, and which; None: from the environment.

    Raises
    ------
    SystemExit
        When another process is that rank already: started twice, it runs once.
    """

    def __init__(self, folder: str | Path | None = None, rank: int | None = None) -> None:
        self.folder = Path(os.environ["OPTPLAN_FLEET"] if folder is None else folder)
        self.rank = int(os.environ["RANK"]) if rank is None else rank
        said: dict[str, Any] = json.loads((self.folder / OPERATION).read_text(encoding="utf-8"))
        role = said["ranks"][self.rank]
        self.world_size: int = len(said["ranks"])
        self.vm: str = role["vm"]
        self.local_rank: int = role["local_rank"]
        self.batch: int = role["batch"]
        self.first_sample: int = role["first_sample"]
        self.loss_weight: float = role["loss_weight"]
        self.done: int = said["from_iterations"]
        self.target: int = said["to_iterations"]
        self.checkpoint: str = said["checkpoint"]
        self.source: int = said["source"]
        #: After which iterations it was stored last, and where.
        self._kept, self._path = self.done, self.checkpoint
        self._beat_s: float = said["heartbeat_s"]
        self._every_s: float = said["checkpoint_every_s"]
        self._save: Callable[[Path], object] | None = None
        self._order = self._answered = 0
        self._ordered_s = 0.0
        self._told_s = float("inf")
        self._stored_s = time.monotonic()
        self._is_waiting = False
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._reports = -1

    # ------------------------------------------------------------------------------------------------ what scripts use

    def __enter__(self) -> Member:
        """Report from now on."""
        path = self.folder / RANKS / f"{self.rank:05d}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._reports = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self._reports, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(0) from None
        self._report(pid=os.getpid())
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Say how it ended; after an error that a lost neighbour may have caused, wait for orders first."""
        if kind is None:
            if self.rank == self.source and self._save is not None:
                self._store(order=0)
            self._report(iterations=self.done, ended=self.done >= self.target)
        elif issubclass(kind, Exception) and self._is_told():
            self._store_last()
        elif issubclass(kind, Exception):
            self._report(trouble=f"{kind.__name__}: {error}"[:500])
            self._is_waiting = True
            self._over.wait()  # the other thread answers orders, and ends the process when it is told to
        self._over.set()
        self._report(left=True)
        if kind is not None and issubclass(kind, Exception) and self._is_told():
            raise SystemExit(TOLD) from None

    def save_with(self, save: Callable[[Path], object]) -> None:
        """Say how the training is stored: what writes it into a file."""
        self._save = save

    def restore(self) -> Any:  # noqa: ANN401 - whatever was stored
        """Return what ``torch.save`` stored last, read by one rank and broadcast to all; None at the beginning."""
        import torch
        import torch.distributed

        box: list[Any] = [None]
        if self.checkpoint and (self.rank == self.source or not torch.distributed.is_initialized()):
            box[0] = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        if torch.distributed.is_initialized():
            torch.distributed.broadcast_object_list(box, src=self.source)
        return box[0]

    def iterations(self) -> Iterator[int]:
        """Yield the numbers of the iterations that are left."""
        while self.done < self.target:
            if self._is_told():
                self._store_last()
                raise SystemExit(TOLD)
            yield self.done

    @contextlib.contextmanager
    def update(self, **metrics: float) -> Iterator[None]:
        """Count an iteration; nothing is stored in the block, in which weights change."""
        with self._lock:
            yield
            self.done += 1
            self._report(iterations=self.done, metrics=metrics)
            self._obey()

    # ---------------------------------------------------------------------------------------------------- what it does

    def _beat(self) -> None:
        """Report, and obey orders that the training does not come to."""
        looks = 0
        while not self._over.wait(self._beat_s / _LOOKS):
            looks += 1
            if looks % _LOOKS == 0:
                self._report()
            if self._is_told():
                self._leave()
            self._look_for_orders()
            late = time.monotonic() - self._ordered_s > self._beat_s
            if self._order > self._answered and (self._is_waiting or late) and self._lock.acquire(blocking=False):
                try:
                    self._obey()
                finally:
                    self._lock.release()

    def _look_for_orders(self) -> None:
        for path in (self.folder / ORDERS).glob("*.json"):
            order = json.loads(path.read_text(encoding="utf-8"))
            if order["rank"] == self.rank and order["order"] > self._order:
                self._order, self._ordered_s = order["order"], time.monotonic()

    def _obey(self) -> None:
        """Store the training where that was asked for, or is due."""
        if self._order > self._answered:
            self._answered = self._order
            self._store(order=self._order)
        elif self._every_s and self.rank == self.source and time.monotonic() - self._stored_s >= self._every_s:
            self._store(order=0)

    def _store(self, order: int) -> None:
        if self._save is None or self.done == self._kept:  # it is as it was stored last
            self._report(iterations=self.done, stored=self._path, order=order)
            return
        path = self.folder / CHECKPOINTS / f"{self.done:09d}-{self.rank:05d}"
        path.parent.mkdir(exist_ok=True)
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        self._save(scratch)
        with scratch.open("rb") as file:
            os.fsync(file.fileno())
        scratch.rename(path)
        self._stored_s, self._kept, self._path = time.monotonic(), self.done, str(path)
        self._report(iterations=self.done, stored=self._path, order=order)

    def _is_told(self) -> bool:
        return (self.folder / STOP).exists()

    def _store_last(self) -> None:
        """Store the training where that was asked of this rank before all end."""
        said: Any = {}
        with contextlib.suppress(OSError, ValueError):  # an empty file asks nobody
            said = json.loads((self.folder / STOP).read_text(encoding="utf-8"))
        if said.get("rank") == self.rank:
            with self._lock:
                self._answered = self._order
                self._store(order=self._order)

    def _leave(self) -> None:
        """End the process, unless its training does so within two heartbeats: it may hang in an exchange."""
        now = time.monotonic()
        self._told_s = min(self._told_s, now)
        if self._is_waiting:
            self._store_last()
            self._over.set()
        elif now - self._told_s > 2 * self._beat_s and self._lock.acquire(blocking=False):
            self._store_last()
            self._report(left=True)
            os._exit(TOLD)

    def _report(self, **said: Any) -> None:  # noqa: ANN401 - plain data
        with contextlib.suppress(OSError):  # a full disk is no reason to stop training
            os.write(self._reports, (json.dumps({"at": time.time(), **said}) + "\n").encode())
