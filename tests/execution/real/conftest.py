"""Scripts that start clusters, apart from everything else on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

#: What Ray's workers import besides the package.
_BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
#: A network that has nothing but a loopback, and processes that all end with the first of them.
_ALONE = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_SECONDS = max(900.0, 20.0 * int(os.environ.get("OPTPLAN_KILLS", "0")))


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short path, as Ray's sockets need, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="op-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


def _run_alone(script: str, folder: Path, *arguments: str) -> str:
    probe = subprocess.run([*_ALONE, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no network of its own can be made here ({probe.stderr.strip()})")
    log, command = (
        folder / "output.log",
        [sys.executable, str(Path(__file__).with_name(script)), str(folder), *arguments],
    )
    inside = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]
    with log.open("w", encoding="utf-8") as output:
        own = {"RAY_TMPDIR": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(_BENCHMARKS)}
        environment = os.environ | own
        process = subprocess.Popen(
            # Ray's workers import from where the driver stands: they are to find the installed package.
            [*_ALONE, *inside],
            cwd=folder,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
        try:
            code = process.wait(_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    shown = log.read_text(encoding="utf-8")
    assert code == 0, shown[-4000:]
    return shown


@pytest.fixture
def run_alone() -> Callable[..., str]:
    """Return what runs a script of this folder with a folder and arguments, and returns what it has written."""
    return _run_alone
