"""Supervision: everything that an operation starts is one group of processes, which ends as a whole.

``python -m optplan.execution.supervision`` splits itself in three: a *supervisor*, its *deputy*, and the process that
does the work. The first two are subreapers, so that whatever the work starts stays below them, in sessions of its own,
too. When the work has ended, however it did, they kill what is left, write down its exit code, and only then let go of
the operation's lock. Who is killed of the two is survived by the other one, which ends everything at once.

The lock says whether an operation runs: it belongs to a file, not to a number, so that no process that has got the same
number, no clock that was set, and no copy of the folder is taken for it. A driver takes it before it starts anything
and hands it on, so that at no moment one could be started twice.

The supervisor also sees to operations that nobody drives any more: it asks them to store their state, and ends them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optplan.errors import MissingExtraError, UsageError
from optplan.execution import trial_files as files

#: Tells supervisors to end everything at once; also what the deputy is sent when the supervisor dies.
END_NOW = signal.SIGUSR1
#: In the environment of all processes of an operation, by which they are known should both supervisors be killed.
_TOKEN = "OPTPLAN_GROUP"
_WATCHED = (signal.SIGCHLD, signal.SIGTERM, END_NOW)
#: Seconds between two looks for a driver, at most, and at what a supervisor watches besides.
_LOOK_S, _DUTY_LOOK_S = 1.0, 0.1
#: Of Linux's prctl(2).
_PDEATHSIG, _SUBREAPER = 1, 36


# ------------------------------------------------------------------------------------------------ for those who start


def require_support() -> None:
    """Say beforehand that groups of processes cannot be supervised here: on another system, or without psutil."""
    if sys.platform != "linux":
        message = f"executor: processes are supervised on Linux only, and this is {sys.platform}"
        raise UsageError(f"{message}; use another machine, or a virtual run")
    try:
        import psutil  # noqa: F401 - asked for before anything is started
    except ModuleNotFoundError:
        raise MissingExtraError("psutil", "run") from None


def launch(
    home: Path,
    folder: Path,
    command: Sequence[str] = (),
    *,
    log: Path,
    variables: Mapping[str, str] | None = None,
    tied: bool = False,
) -> subprocess.Popen[bytes] | None:
    """Start a supervised group of processes and return its supervisor; None where it is running already.

    In ``home`` are its lock, who it is, and how it ended. Without a ``command`` :mod:`optplan.execution.worker` does
    what the operation in ``folder`` says. What it writes is appended to the ``log``; ``variables`` of its environment
    are beside those of this process, and where it is ``tied`` it ends with this one.
    """
    lock = files.take_lock(home / files.LOCK)
    if lock is None:
        return None
    try:
        words = [str(home), str(folder), str(lock), str(os.getpid() if tied else 0), *command]
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "optplan.execution.supervision", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(variables or {}), _TOKEN: uuid.uuid4().hex},
                start_new_session=True,
                pass_fds=[lock],
            )
    finally:
        os.close(lock)


def write_command(folder: Path) -> str:
    """Return the line of a shell by which an operation is done and supervised on whatever machine runs it."""
    own = str(folder.resolve())
    return shlex.join([sys.executable, "-m", "optplan.execution.supervision", own, own, "", "0"])


def name_home(folder: Path, rank: int) -> Path:
    """Return where one of several groups of an operation is known; the first one in the operation's folder."""
    return folder / f"worker-{rank}" if rank else folder


def list_homes(folder: Path) -> list[Path]:
    """Return where the groups of an operation are known."""
    return [path.parent for pattern in (files.LOCK, f"worker-*/{files.LOCK}") for path in folder.glob(pattern)]


def is_running(home: Path) -> bool:
    """Whether a supervised group runs: its work, or what that has left."""
    return files.is_locked(home / files.LOCK)


def read_code(home: Path) -> int | None:
    """Return the exit code of a group that has ended, of a signal its negative number; None where it is not known."""
    ended = files.read(home / files.ENDED)
    return None if ended is None else ended["code"]


def end(home: Path) -> None:
    """Have a group of this machine end at once; it has ended when it does not run any more."""
    known = _read_identity(home)
    if known is None:
        return
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):  # which it says of a number that another has got since, too
        process = psutil.Process(known["pid"])
        if _identify(known["pid"]) == known["identity"]:
            process.send_signal(END_NOW)


def clear(home: Path) -> None:
    """End what is left of a group on this machine whose two supervisors were killed at once."""
    known = _read_identity(home)
    if known is None or (home / files.ENDED).exists():
        return
    import psutil

    def is_left(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            same: bool = process.environ().get(_TOKEN) == known["token"]
            return same and process.status() != psutil.STATUS_ZOMBIE
        return False

    while left := [process for process in psutil.process_iter() if is_left(process)]:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=_LOOK_S)


def _read_identity(home: Path) -> dict[str, Any] | None:
    """Return who supervises a group; None where nobody did on this machine since it was started, and in copies."""
    known = files.read(home / files.PROCESS)
    here = home.stat() if known is not None else None
    if known is None or here is None or known["folder"] != [here.st_dev, here.st_ino]:
        return None
    return dict(known) if known["boot"] == _read_boot() else None


def _identify(pid: int) -> int | None:
    """Return when a process was started, in the kernel's ticks since the machine was; None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _read_boot() -> str:
    """Return the id of the machine's boot; empty in sandboxes that do not say it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


# --------------------------------------------------------------------------------------------- the processes themselves


class LockWatch:
    """Looks whether somebody holds a lock, on this machine or another one; who does not for ``after_s`` is gone.

    At every look an ``own`` file is touched, as a sign of life to those who look for this one.
    """

    def __init__(self, lock: Path, after_s: float, own: Path | None = None) -> None:
        self._lock, self._after_s, self._own = lock, after_s, own
        self._touched, self._seen_at, self._look_at = 0, time.monotonic(), 0.0
        self.look_s = min(_LOOK_S, after_s / 4.0)

    def is_gone(self) -> bool:
        """Whether nobody has held it for so long."""
        # Where the file system does not tell other machines of locks, whoever holds one is seen to touch the file.
        now = time.monotonic()
        if now >= self._look_at:  # however often it is asked: the file may be on another machine
            self._look_at = now + self.look_s
            if self._own is not None:
                with contextlib.suppress(OSError):
                    os.utime(self._own)
            with contextlib.suppress(OSError):
                touched = self._lock.stat().st_mtime_ns
                if touched != self._touched or files.is_locked(self._lock):
                    self._touched, self._seen_at = touched, now
        return now - self._seen_at >= self._after_s


@dataclass
class _Duty:
    """What a supervisor watches besides its child: its log, whether somebody drives it, and who asks it to end."""

    folder: Path  #: Of the operation.
    driver: LockWatch | None = None  #: Who drives it; None where nobody has to.
    grace_s: float = 0.0  #: Seconds that it has to store its state when it is asked to.
    log: Path | None = None  #: What it writes, which is bounded; None where that is not up to this supervisor.
    end_at: float | None = None  #: When it is ended, on the monotonic clock; None unless it was asked to.

    def ask(self) -> None:
        if self.end_at is None:
            self.end_at = time.monotonic() + self.grace_s
            with contextlib.suppress(OSError):  # no room to ask in: it is ended after the grace
                (self.folder / files.STOP).touch()

    def is_over(self) -> bool:
        """Whether the time of the operation is over; cuts its log, and asks it to end where nobody drives it."""
        if self.log is not None:
            with contextlib.suppress(OSError):
                files.bound_log(self.log)
        if self.driver is not None and self.driver.is_gone():
            self.ask()
        return self.end_at is not None and time.monotonic() >= self.end_at


def supervise(home: Path, folder: Path, lock: int | None, owner: int) -> int | None:
    """Return None in the process that is to do the work, and its exit code in its supervisors, once all has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, exit codes are lost
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    if owner:
        _die_with(owner, END_NOW)
    lock = files.take_lock(home / files.LOCK) if lock is None else lock
    if lock is None:
        return 0
    (home / files.ENDED).unlink(missing_ok=True)
    own, here = os.getpid(), home.stat()
    identity = {"pid": own, "identity": _identify(own), "boot": _read_boot(), "folder": [here.st_dev, here.st_ino]}
    files.write(home / files.PROCESS, {**identity, "token": os.environ.get(_TOKEN, "")})
    _prctl(_SUBREAPER, 1)
    deputy = os.fork()
    if deputy:
        return _stand_by(deputy, home, _read_duty(home, folder))
    _prctl(_SUBREAPER, 1)
    os.setsid()  # each is a group of its own, so that who signals a group hits one of the three
    _die_with(own, END_NOW)
    own, work = os.getpid(), os.fork()
    if work:
        return _stand_by(work, home, None)
    os.setsid()
    _die_with(own, signal.SIGKILL)
    os.close(lock)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return None


def _read_duty(home: Path, folder: Path) -> _Duty:
    said = files.read(folder / files.OPERATION) or {}
    if "orphan_after_s" not in said:
        return _Duty(folder)
    log = Path(said["log"]) if home == folder and "log" in said else None  # others write into the same one
    driver = LockWatch(Path(said["root"]) / files.DRIVER_LOCK, said["orphan_after_s"], home / files.LOCK)
    return _Duty(folder, driver, said["grace_s"], log)


def _stand_by(child: int, home: Path, duty: _Duty | None) -> int:
    """Wait for a child's end, or for word that all is to end; then end what is left and write down how it went."""
    code: int | None = None
    while code is None:
        said = signal.sigtimedwait(_WATCHED, _DUTY_LOOK_S) if duty is not None else signal.sigwaitinfo(_WATCHED)
        number = None if said is None else said.si_signo
        code, _ = _reap(child, None)
        if number == END_NOW or (duty is not None and duty.is_over()):
            break
        if number == signal.SIGTERM and duty is not None:
            duty.ask()
    code = _end_all(child, code)
    if not (home / files.ENDED).exists():
        with contextlib.suppress(OSError):  # no room: the exit code says it as well
            files.write(home / files.ENDED, {"code": code})
    return code if code >= 0 else 128 - code


def _reap(child: int, code: int | None) -> tuple[int | None, bool]:
    """Take note of all processes below this one that have ended: the exit code of one of them; whether none is left."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
        return code, False
    return code, True


def _end_all(child: int, code: int | None) -> int:
    """Kill everything below this process until nothing is left; return the exit code of one of them, or -9."""
    while True:
        code, is_over = _reap(child, code)
        if is_over:
            return -signal.SIGKILL.value if code is None else code
        import psutil

        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        signal.sigtimedwait([signal.SIGCHLD], _LOOK_S)


def _die_with(owner: int, number: int) -> None:
    """Have the system send this process a signal when the one that has started it ends."""
    _prctl(_PDEATHSIG, number)
    if os.getppid() != owner:  # it has ended already
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(words: Sequence[str]) -> int:
    """Supervise what is to be done in a folder: ``HOME FOLDER LOCK OWNER [COMMAND...]``; or, below, do it."""
    home, folder, lock, owner, *command = words
    try:
        code = supervise(Path(home), Path(folder), int(lock) if lock else None, int(owner))
    except OSError as error:
        traceback.print_exc()
        return files.judge(error)
    if code is not None:
        return code
    if command:
        os.execvp(command[0], command)
    from optplan.execution import worker

    return worker.main(Path(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
