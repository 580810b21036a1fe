"""``optplan serve`` as a process of its own on loopback: it serves, is killed, goes on, and ends when told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real
pytest.importorskip("aiohttp")

#: Seconds that a start may take on a busy machine.
_PATIENCE_S = 60.0


@contextmanager
def _serving(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a service, wait until it listens, and kill it in the end whatever happens."""
    (folder / "address").unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "optplan.cli", "serve", str(folder), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE)
    try:
        end_s = time.monotonic() + _PATIENCE_S
        while not (folder / "address").exists():
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < end_s
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.communicate()


def _ask(folder: Path, path: str, data: object = None) -> Any:  # noqa: ANN401 - JSON
    return json.loads(_read(folder, path, data))


def _read(folder: Path, path: str, data: object = None) -> bytes:
    headers = {"Authorization": f"Bearer {(folder / 'token').read_text().strip()}", "Content-Type": "application/json"}
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request((folder / "address").read_text().strip() + path, body, headers)
    with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
        return bytes(answer.read())


def test_a_service_is_killed_and_goes_on(tmp_path: Path) -> None:
    """After kill -9 a new start without any instance has the events and the table; SIGTERM then ends it with 143."""
    folder = tmp_path / "state"
    arrivals = [{"kind": "arrival", "id": str(number), "job_class": "bert"} for number in range(100)]
    with _serving(folder, "--instance", "boa-newtrace", "--budget", "120gpu") as process:
        assert _ask(folder, "/v1/events", {"events": arrivals})["taken"] == 100
        process.send_signal(signal.SIGKILL)
        process.wait(_PATIENCE_S)
    table = json.loads((folder / "widths.json").read_text("utf-8")) if (folder / "widths.json").exists() else None
    with _serving(folder) as process:
        assert _ask(folder, "/v1/events", {"events": arrivals})["repeated"] == 100
        assert b"\noptplan_events_total 100.0\n" in _read(folder, "/metrics")
        published = _ask(folder, "/v1/widths")
        assert table is None or published["number"] >= table["number"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(_PATIENCE_S) == 143
    assert json.loads((folder / "widths.json").read_text("utf-8"))["number"] >= published["number"]
    assert os.stat(folder / "token").st_mode & 0o077 == 0
