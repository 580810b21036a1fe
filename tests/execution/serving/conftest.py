"""A small stream of jobs, and a clock that is set by hand."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from optplan.execution.serving.publisher import Publisher
from optplan.formulations.boa.data.instance import BoaInstance


@pytest.fixture
def now() -> list[float]:
    """Return what the clock shows, seconds since 1970; tests set its one entry."""
    return [1_800_000_000.0]


@pytest.fixture
def clock(now: list[float]) -> Callable[[], float]:
    """Return a clock that stands still until it is set."""
    return lambda: now[0]


@pytest.fixture
def stream() -> BoaInstance:
    """Two classes: one job an hour of one GPU-hour each, speeds 1, 1.6 and 2 on 1, 2 and 4 GPUs, no rescaling."""
    table = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
    job_class = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"t4": table}}
    return BoaInstance(
        name="two-classes",
        classes={"a": job_class, "b": job_class},
        gpu_types={"t4": {}},
        budget="2.5gpu",
        problem="whole",
    )


TOKEN = "a-token-of-this-test"


class Asking:
    """Asks a service as its user would."""

    def __init__(self, address: str, publisher: Publisher) -> None:
        self.token = TOKEN
        self.host = address.removeprefix("http://")
        self.publisher = publisher

    def ask(
        self, method: str, path: str, body: object = None, *, token: str | None = TOKEN, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token}")
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            connection.request(method, path, body=data, headers=sent)
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        finally:
            connection.close()

    def read(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return what a path says."""
        status, _, body = self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    def tell(self, *events: dict[str, object]) -> tuple[int, Any]:
        """Tell of events."""
        status, _, body = self.ask("POST", "/v1/events", {"events": list(events)})
        return status, json.loads(body)


@pytest.fixture
def service(tmp_path: Path, stream: BoaInstance) -> Iterator[Asking]:
    """Run a service on a free port of loopback, and end it."""
    pytest.importorskip("aiohttp")
    from optplan.execution.serving.service import serve

    publisher = Publisher(tmp_path / "state", stream, {"settle_s": 0.0})
    publisher.start()
    ready = threading.Event()
    found: list[Any] = []

    async def run() -> None:
        stop = asyncio.Event()

        def tell(address: str) -> None:
            found.extend([address, asyncio.get_running_loop(), stop])
            ready.set()

        await serve(publisher, TOKEN, stop=stop, on_ready=tell)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(240.0)
    address, loop, stop = found
    yield Asking(address, publisher)
    loop.call_soon_threadsafe(stop.set)
    thread.join(60)
    publisher.stop()
