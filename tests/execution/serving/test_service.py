"""The width calculator over HTTP, on loopback: what it takes, answers, shows and refuses."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import select
import socket
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest

from optplan.errors import UsageError
from optplan.execution.online.width_table import WidthTable
from optplan.execution.serving.accounting import SlurmJobs
from optplan.execution.serving.service import MOST_BYTES, repeat
from tests.execution.serving.conftest import TOKEN, Asking

pytestmark = pytest.mark.skipif(find_spec("aiohttp") is None, reason="aiohttp is not installed")


#: The token, as a browser would send it that was asked for a password.
_PASSWORD = f"Basic {base64.b64encode(f':{TOKEN}'.encode()).decode()}"


def _arrival(name: str, job_class: str = "a") -> dict[str, object]:
    return {"kind": "arrival", "id": name, "job_class": job_class}


def test_the_table_is_read_whole_and_only_when_it_is_new(service: Asking) -> None:
    """The table is that of the publisher; its number is the tag by which readers ask for a newer one."""
    status, headers, body = service.ask("GET", "/v1/widths")
    assert status == 200
    assert WidthTable.parse(json.loads(body)) == service.publisher.view.table
    assert headers["ETag"] == '"1"'
    assert service.ask("GET", "/v1/widths", If_None_Match='"1"')[0] == 304


def test_events_are_answered_one_by_one(service: Asking) -> None:
    """Good ones count although others are malformed or unknown, and repetitions do no harm."""
    unknown: dict[str, object] = {"kind": "completion", "id": "3", "job_class": "nobody"}
    status, told = service.tell(_arrival("1"), {"kind": "arrival"}, unknown, _arrival("1"))
    assert status == 422
    assert (told["taken"], told["repeated"], told["refused"]) == (1, 1, 2)
    assert [each["number"] for each in told["errors"]] == [1, 2]
    assert "events.1" in told["errors"][0]["error"]
    assert "there is no class 'nobody'" in told["errors"][1]["error"]
    status, told = service.tell(_arrival("1"), _arrival("2"))
    assert (status, told["taken"], told["repeated"]) == (200, 1, 1)
    status, _, body = service.ask("POST", "/v1/events", _arrival("4"))
    assert (status, json.loads(body)["taken"]) == (200, 1)


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/widths", "/metrics", "/nowhere"],
)
def test_nothing_is_open_without_the_token(service: Asking, path: str) -> None:
    """No token, a forged one and a beginning of the right one are answered alike, and so are paths that are not."""
    for token in (None, "forged", TOKEN[:-1], ""):
        status, headers, _ = service.ask("GET", path, token=token)
        assert status == 401
        assert headers["WWW-Authenticate"].startswith("Bearer")


def test_forged_events_change_nothing(service: Asking) -> None:
    """Neither a wrong token, nor a password, nor a stranger's page, nor a form gets an event in."""
    before = service.publisher.view.events
    statuses = [
        service.ask("POST", "/v1/events", _arrival("1"), token="forged")[0],
        service.ask("POST", "/v1/events", _arrival("1"), Authorization=_PASSWORD, Host="rebound.example")[0],
        service.ask("POST", "/v1/events", _arrival("1"), Origin="http://rebound.example")[0],
        service.ask("POST", "/v1/events", _arrival("1"), Sec_Fetch_Site="cross-site")[0],
        service.ask("POST", "/v1/events", _arrival("1"), Content_Type="text/plain")[0],
        service.ask("POST", "/v1/events", _arrival("1"), Content_Encoding="gzip")[0],
    ]
    assert statuses[:5] == [401, 401, 403, 403, 415]
    assert statuses[5] in (400, 415)
    assert service.publisher.view.events == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b'{"events": 3}', 400),
        (b'{"events": [NaN, null, [], 7]}', 422),
        (b'{"kind": "arrival", "id": "1", "job_class": "a", "at_s": 1e400}', 422),
        (b'{"kind": "measurement", "id": "1", "job_class": "a", "gpus": 1' + b"0" * 5000 + b', "speed": 1}', 400),
        (b" " * (MOST_BYTES + 1), 413),
    ],
)
def test_bodies_that_are_no_events_are_refused(service: Asking, body: bytes, status: int) -> None:
    """Whatever comes, the answer is an error in JSON, and the service goes on."""
    got, _, answer = service.ask("POST", "/v1/events", body)
    assert got == status
    assert isinstance(json.loads(answer), dict)
    assert service.tell(_arrival("after"))[0] == 200


def test_prometheus_can_read_the_metrics(service: Asking) -> None:
    """What is written is read again by Prometheus' own parser."""
    parser = pytest.importorskip("prometheus_client.parser")
    service.tell(_arrival("1"), {"kind": "arrival"})  # the second one has no class, and the next body is none
    service.ask("POST", "/v1/events", b"[")
    status, headers, body = service.ask("GET", "/metrics")
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    samples = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in parser.text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    assert samples["optplan_events_total", ()] == 1
    assert samples["optplan_events_refused_total", ()] == 2
    assert samples["optplan_budget", ("given",)] == 2.5
    assert samples["optplan_table", ()] >= 1
    assert samples["optplan_arrivals_per_hour", ("b",)] == pytest.approx(1.0, rel=1e-3)


def test_readers_never_see_half_a_table(service: Asking) -> None:
    """While tables change many times, each that is read, over HTTP or from the file, is whole and none is older."""
    asked: list[int] = []
    read: list[int] = []
    path = service.publisher.folder / "widths.json"
    for number in range(12):
        speed = 3.0 if number % 2 else 1.1
        measured: dict[str, object] = {"kind": "measurement", "job_class": "a"}
        service.tell(
            {**measured, "id": f"one-{number}", "gpus": 1, "speed": 1.0},
            *({**measured, "id": f"{each}-{number}", "gpus": 2, "speed": speed} for each in range(9)),
        )
        service.publisher.calculate()
        asked.append(WidthTable.parse(service.read("/v1/widths")).number)
        read.append(WidthTable.parse(json.loads(path.read_text("utf-8"))).number)
    assert asked == sorted(asked)
    assert read == sorted(read)
    assert read[-1] > 1


@pytest.mark.parametrize(
    ("pattern", "name", "job_class"),
    [
        ("", "bert-large-7", "bert-large"),
        ("", "bert", "bert"),
        ("", "bertha", None),
        (r"^([a-z]+)\d*_", "resnet50_x", "resnet"),
        (r"x+", "axxb", "xx"),
        (r"^q", "bert-1", None),
    ],
)
def test_names_say_the_class(pattern: str, name: str, job_class: str | None) -> None:
    """By a pattern, or by the longest known class that the name begins with."""
    jobs = SlurmJobs(pattern)
    if job_class is None:
        with pytest.raises(ValueError, match="name: "):
            jobs.find_class(name, ["bert", "bert-large"])
    else:
        assert jobs.find_class(name, ["bert", "bert-large"]) == job_class


def test_a_pattern_has_to_be_one() -> None:
    """A broken regular expression is refused before anything begins."""
    with pytest.raises(UsageError, match="is no regular expression"):
        SlurmJobs("(")


def _connect(service: Asking) -> socket.socket:
    host, _, port = service.host.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let services wait for a fifth of a second for headers."""
    monkeypatch.setattr("optplan.execution.serving.service._HEADER_S", 0.2)


@pytest.mark.usefixtures("hasty")  # before the service begins
def test_a_header_that_never_ends_is_not_waited_for(service: Asking) -> None:
    """Whoever sends it line by line, and whoever sends nothing, also after an answer, is cut off; others are served."""
    begun = f"GET /v1/widths HTTP/1.1\r\nHost: {service.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
    with _connect(service) as slow, _connect(service) as silent, _connect(service) as served:
        slow.sendall(begun.encode())
        served.sendall(f"{begun}\r\n".encode())
        assert served.recv(12) == b"HTTP/1.1 200"
        while not select.select([slow], [], [], 0.01)[0]:  # a service that waits never ends this
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                slow.sendall(b"X-More: 1\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(1) == b""
        assert silent.recv(1) == b""
        while served.recv(4096):
            pass
        assert service.read("/v1/widths")


def test_there_are_only_so_many_connections(service: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth of three is told to come again, and is served once another one has gone."""
    monkeypatch.setattr("optplan.execution.serving.service._MOST_CONNECTIONS", 3)
    asked = f"GET /v1/widths HTTP/1.1\r\nHost: {service.host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()

    def ask(connection: socket.socket) -> bytes:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(asked)
            return connection.recv(12)
        return b""

    with _connect(service) as first, _connect(service) as second, _connect(service) as third:
        assert [ask(each) for each in (first, second, third)] == [b"HTTP/1.1 200"] * 3
        with _connect(service) as fourth:
            assert fourth.recv(12) == b"HTTP/1.1 503"
        third.close()
        answers = set()
        while b"HTTP/1.1 200" not in answers:  # the service has to notice that the third has gone
            with _connect(service) as again:
                answers.add(ask(again))
        assert answers <= {b"HTTP/1.1 200", b"HTTP/1.1 503", b""}


def test_what_stays_wrong_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Two looks that fail alike are one line; after a look that went well it is said again."""
    answers = iter(["gone", "gone", "", "gone", "end"])

    def look() -> int:
        answer = next(answers)
        if answer == "end":
            raise EOFError
        if answer:
            raise OSError(answer)
        return 0

    async def look_on() -> None:
        await repeat(look, 0.0)

    with ThreadPoolExecutor(1) as thread, pytest.raises(EOFError):  # this one may have a loop of its own
        thread.submit(lambda: asyncio.run(look_on())).result()
    assert caplog.messages == ["gone", "gone"]
