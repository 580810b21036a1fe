"""The process of a trial in one segment: steps it, stores it, and leaves behind what came of it.

It is started by an executor with a folder that has ``operation.json``; there it writes ``progress.jsonl`` (a line for
each iteration), now and then ``stored.json`` and at the end ``outcome.json``, both by rename. It ends by itself: after
its iterations, by the clock, or once there is a file ``stop`` or it gets SIGTERM, always with a checkpoint. So it needs
no driver, and another driver finds what it left. Above it stands :mod:`optplan.execution.supervision`.

Under torchrun each worker runs this; the first decides when to stop and tells the others before each iteration.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from optplan.errors import DataError, OptplanError, OutputError
from optplan.execution.records import plain
from optplan.execution.trainables import Report, Session, import_trainable, make_trainer, run_command, time_steps
from optplan.execution.trial_files import HOPELESS, OPERATION, OUTCOME, PROGRESS, STOP, STORED, bring, judge


class _Joined:
    """Workers that torchrun started; the first one's word goes."""

    def __init__(self) -> None:
        import torch
        import torch.distributed

        # The word of whether to stop goes by gloo: it needs no GPU, and workers may share one.
        torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        self._torch = torch
        self.is_first = torch.distributed.get_rank() == 0

    def agree(self, *, stop: bool) -> bool:
        word = self._torch.tensor([int(stop)])
        self._torch.distributed.broadcast(word, src=0)
        return bool(word.item())


def main(folder: Path) -> int:
    """Run the operation in a folder, and return the exit code.

    0 when it ended in good order, 3 when trying again would fail again, 4 when there was no room to write, 1 when it
    failed otherwise.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's, which asks in good order
    operation: dict[str, Any] = json.loads((folder / OPERATION).read_text(encoding="utf-8"))
    try:
        team = _Joined() if "TORCHELASTIC_RUN_ID" in os.environ else None
        if team is None:
            _heed_termination(folder)
        set_up(Path(operation["root"]), operation.get("setup", ()))
        (folder / PROGRESS).touch()
        if operation["command"]:
            return run_command(folder, operation)
        _Training(folder, operation, team).run()
    except OptplanError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201 - into the trial's log
        return 1 if isinstance(error, OutputError) else HOPELESS  # what is stored by URL may be reached again
    except OSError as error:
        traceback.print_exc()
        return judge(error)
    except Exception:  # noqa: BLE001 - whatever the user's code raises is what failed
        traceback.print_exc()
        return 1
    return 0


def _heed_termination(folder: Path) -> None:
    """Take SIGTERM, as machines that shut down send it to everybody, for a request to stop; not in forked helpers."""
    own = os.getpid()

    def handle(number: int, _: FrameType | None) -> None:
        if os.getpid() == own:
            (folder / STOP).touch()
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, handle)


def set_up(root: Path, commands: Sequence[str]) -> None:
    """Run commands on this machine, unless they have been run for this run; others wait until they are through.

    It is written down in the run's folder for which machines that is done; DataError where one fails.
    """
    if not commands:
        return
    folder = root / "setup"
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / platform.node(), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.read(handle, 1):
            return
        for number, command in enumerate(commands):
            sys.stdout.flush()
            code = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, check=False).returncode
            if code:
                problem = f"{command!r} ended with exit code {code} on {platform.node()}"
                raise DataError(f"setup.commands.{number}", problem, "its output is in the trial's log")
        os.write(handle, b"1")
    finally:
        os.close(handle)


class _Training(Report):
    def __init__(self, folder: Path, operation: Mapping[str, Any], team: _Joined | None) -> None:
        super().__init__(folder, operation)
        self._team = team
        self._is_first = team is None or team.is_first
        self._steps: list[float] = []
        self._save_s = 0.0
        begun = self._saved_at = time.monotonic()
        trainable = import_trainable(operation["train"], Path(operation["folder"]))
        checkpoint = bring(operation)
        session = Session(checkpoint=checkpoint, iterations=self.iterations, gpus=operation["gpus"])
        self._trainer = make_trainer(trainable, operation["configuration"], session)
        self._load_s = time.monotonic() - begun
        self._start_s = time.time() - operation["wanted_wall"]

    def run(self) -> None:
        target: int | None = self.operation["to_iterations"]
        complete = True
        while target is None or self.iterations < target:
            is_up = self._is_time_up()
            stop = is_up or (self.folder / STOP).exists()
            if stop if self._team is None else self._team.agree(stop=stop):
                complete = is_up
                break
            if not self._step():
                break
            if self._is_first:
                self.tell([(self.iterations, self.metrics)], self._steps[-1])
                if time.monotonic() - self._saved_at >= self.operation["checkpoint_every_s"]:
                    self._store()
                    self._leave(STORED, complete=False)
        has_news = self.iterations > self.operation["from_iterations"] or self.checkpoint is None
        if self._is_first and has_news:
            self._store()
        self._trainer.close()
        if self._is_first:
            self._leave(OUTCOME, complete=complete)

    def _is_time_up(self) -> bool:
        """Whether the clock ends the segment before another iteration would be over."""
        until = self.operation["until_wall"]
        return until is not None and time.time() + (self._steps[-1] if self._steps else 0.0) >= until

    def _step(self) -> bool:
        """Do another iteration; False where nothing is left to do."""
        begun = time.monotonic()
        shown = self._trainer.step()
        if shown is None:
            return False
        wait_s = self.operation["step_wait_s"] - (time.monotonic() - begun)
        if wait_s > 0:
            time.sleep(wait_s)
        self._steps.append(time.monotonic() - begun)
        self.iterations, self.metrics = self.iterations + 1, plain(dict(shown))
        if self.operation["metric"] not in self.metrics:
            problem = f"reported no {self.operation['metric']!r}; it reported {', '.join(self.metrics) or 'nothing'}"
            raise DataError("train", problem, "name one of these with --metric")
        return True

    def _store(self) -> None:
        begun = time.monotonic()
        self.save(self._trainer.save)
        self._saved_at = time.monotonic()
        self._save_s = self._saved_at - begun

    def _leave(self, name: str, *, complete: bool) -> None:
        timings = {"start_s": self._start_s, "load_s": self._load_s, "save_s": self._save_s, **time_steps(self._steps)}
        self.leave(name, timings, complete=complete)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
