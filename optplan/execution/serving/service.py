"""The width calculator over HTTP: events in, the table and the metrics out.

On loopback unless asked otherwise, and nothing without the token (:mod:`optplan.execution.serving.store`). Bodies are
JSON of bounded size; nothing is unpickled, and no path of a request becomes a path of a file. Importing this says which
extra brings aiohttp, where it is not installed.

How a calculator stands, as metrics for Prometheus.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from optplan.errors import DataError, MissingExtraError, OptplanError, OutputError
from optplan.execution.online.messages import Verdict, parse_events
from optplan.execution.runs import interruptible
from optplan.execution.serving.publisher import Publisher, Reply, View
from optplan.execution.serving.store import find_token, is_from_own_page, is_right

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


def render_metrics(view: View) -> bytes:
    """Return the metrics in Prometheus' text format."""
    try:
        from prometheus_client import generate_latest
        from prometheus_client.registry import Collector
    except ModuleNotFoundError:
        raise MissingExtraError("prometheus_client", "serve") from None

    class Scrape(Collector):
        """Collects from one view."""

        def collect(self) -> Iterator[Metric]:
            """Yield the metrics."""
            return _collect(view)

    return generate_latest(Scrape())


def _collect(view: View) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield CounterMetricFamily("optplan_events", "Events taken.", value=view.events)
    yield CounterMetricFamily("optplan_events_refused", "Events refused since the start.", value=view.refused)
    yield CounterMetricFamily("optplan_batches", "Transactions of events since the start.", value=view.batches)
    budgets, verdicts = {"given": view.instance.budget_amount(), "committed": view.committed}, dict[str, float | None]()
    gauges: list[tuple[str, str, float | None]] = [
        ("start_time_seconds", "When the process began.", view.began_s),
        ("budget_debt_hours", "Hours of budget that were committed beyond what it gave.", view.debt_h),
    ]
    if view.calculations:
        latest = view.calculations[0]
        budgets |= {"planned": latest.planned, "needed": latest.needed, "followed": latest.followed}
        verdicts |= {each.value: float(latest.verdict is each) for each in Verdict}
        gauges.append(("calculated_time_seconds", "When widths were calculated.", latest.at_s))
        gauges.append(("gap", "Proven relative gap of the last calculation.", latest.gap))
    if view.table is not None:
        gauges.append(("table", "Number of the published table.", view.table.number))
        gauges.append(("table_time_seconds", "When it was made.", view.table.made_s))
        gauges.append(("planned_gpus", "Time-average GPUs expected of it.", view.table.gpus))
        gauges.append(("planned_jct_seconds", "Mean completion time expected.", view.table.mean_jct_s))
    for name, said, value in gauges:
        if value is not None:
            yield GaugeMetricFamily(f"optplan_{name}", said, value=value)
    classes, unit = view.instance.classes, view.instance.budget_unit.value.replace("/", "_per_")
    rates = {name: each.arrival_rate_per_hour for name, each in classes.items()}
    sizes = {name: each.size_gpu_hours for name, each in classes.items()}
    for name, said, label, values in (
        ("budget", f"The budget, in {unit}.", "what", budgets),
        ("calculation", "What became of the last calculation.", "verdict", verdicts),
        ("arrivals_per_hour", "Estimated arrival rate.", "job_class", rates),
        ("size_gpu_hours", "Estimated mean size of a job.", "job_class", sizes),
    ):
        family = GaugeMetricFamily(f"optplan_{name}", said, labels=[label])
        for labelled, value in values.items():
            if value is not None:
                family.add_metric([labelled], value)
        yield family


try:
    from aiohttp import web
except ModuleNotFoundError:
    raise MissingExtraError("aiohttp", "serve") from None


_LOG = logging.getLogger(__name__)

#: Bytes of a request's body at most: some 5,000 events.
MOST_BYTES = 1024 * 1024
#: Seconds that may pass from the first byte of a request's body to the last.
_BODY_S = 30.0
#: Seconds from the beginning of a connection, or the end of an answer, in which a request's header has to be whole.
_HEADER_S = 10.0
#: Connections at a time; each takes an open file, of which systems allow 1,024.
_MOST_CONNECTIONS = 200
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_PUBLISHER, _TOKEN = web.AppKey("publisher", Publisher), web.AppKey("token", str)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let in whoever may, and say in JSON what went wrong."""
    if not is_from_own_page(request.headers):
        return _complain(403, "Origin", "requests of other pages are not answered")
    if not is_right(request.app[_TOKEN], find_token(request.headers)):
        refused = _complain(401, "Authorization", "the token is needed: Bearer TOKEN")
        refused.headers["WWW-Authenticate"] = 'Bearer realm="optplan"'
        return refused
    if request.method == "POST":
        if request.content_type != "application/json":
            return _complain(415, "Content-Type", "application/json is needed")
        if "Content-Encoding" in request.headers:
            return _complain(415, "Content-Encoding", "bodies are to be sent as they are")
    try:
        response = await handler(request)
    except web.HTTPException as error:
        return _complain(error.status, "", error.reason)
    except DataError as error:
        await asyncio.wrap_future(request.app[_PUBLISHER].tell([error]))
        return _complain(400, error.path, str(error))
    except OutputError as error:
        return _complain(503, "", str(error))
    except OptplanError as error:
        return _complain(500, "", str(error))
    response.headers.update(_HEADERS)
    return response


async def _get_widths(request: web.Request) -> web.StreamResponse:
    table = request.app[_PUBLISHER].view.table
    if table is None:
        return _complain(404, "", "no table was calculated yet")
    tag = f'"{table.number}"'
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers={"ETag": tag})
    return web.json_response(table.to_json_data(), headers={"ETag": tag})


async def _get_metrics(request: web.Request) -> web.StreamResponse:
    kind = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return web.Response(body=render_metrics(request.app[_PUBLISHER].view), headers=kind)


async def _post_events(request: web.Request) -> web.StreamResponse:
    """Take an event, or ``{"events": [...]}``; one that is malformed keeps none of the others out."""
    events = parse_events(await _read_json(request))
    told = await asyncio.wrap_future(request.app[_PUBLISHER].tell(events))
    counts = {answer.value: sum(outcome.answer is answer for outcome in told) for answer in Reply}
    errors = [{"number": n, "error": outcome.complaint} for n, outcome in enumerate(told) if outcome.complaint]
    return web.json_response({**counts, "errors": errors}, status=422 if errors else 200)


class _Refusal(asyncio.Protocol):
    """Tells whoever comes while there are too many others to come again later."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        transport.close()


async def _listen(runner: web.AppRunner, host: str, port: int) -> asyncio.Server:
    """Have a runner answer on an address, so many connections at a time."""
    server = runner.server
    assert server is not None  # it is set up

    def admit() -> asyncio.Protocol:
        return _Refusal() if len(server.connections) >= _MOST_CONNECTIONS else server()

    try:
        return await asyncio.get_running_loop().create_server(admit, host, port)
    except OSError as error:
        raise OutputError(f"{host}:{port} cannot be listened on ({error.strerror})") from None


async def _read_json(request: web.Request) -> Any:  # noqa: ANN401 - whatever it says
    try:
        body = await asyncio.wait_for(request.read(), _BODY_S)
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError("body", f"is no JSON ({str(error)[:200]})", 'send an object, or {"events": [...]}') from None


def _complain(status: int, path: str, message: str) -> web.Response:
    error = {"message": message, **({"path": path} if path else {})}
    return web.json_response({"error": error}, status=status, headers=_HEADERS)


async def repeat(look: Callable[[], object], every_s: float) -> None:
    """Look over and over, in a thread of its own; what goes wrong is logged once, and tried again."""
    wrong = ""
    while True:
        try:
            await asyncio.to_thread(look)
            wrong = ""
        except (OptplanError, OSError) as error:
            if str(error) != wrong:
                _LOG.error("%s", error)
            wrong = str(error)
        await asyncio.sleep(every_s)


async def serve(
    publisher: Publisher,
    token: str,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[str], None],
    looks: Sequence[tuple[Callable[[], object], float]] = (),
) -> None:
    """Serve a started publisher to whoever has the token, until told to stop; port 0 takes a free one.

    ``on_ready`` gets the address; ``looks`` are done over and over beside, so many seconds apart.
    """
    application = web.Application(middlewares=[_guard], client_max_size=MOST_BYTES)
    application[_PUBLISHER], application[_TOKEN] = publisher, token
    application.add_routes([web.get("/v1/widths", _get_widths), web.get("/metrics", _get_metrics)])
    application.add_routes([web.post("/v1/events", _post_events)])
    runner = web.AppRunner(application, access_log=None, keepalive_timeout=_HEADER_S)
    await runner.setup()
    running = [asyncio.ensure_future(repeat(*each)) for each in looks]
    listening: asyncio.Server | None = None
    try:
        listening = await _listen(runner, host, port)
        port = listening.sockets[0].getsockname()[1]
        on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        await stop.wait()
    finally:
        if listening is not None:
            listening.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await runner.cleanup()


def run(publisher: Publisher, *where: Any, **how: Any) -> int:  # noqa: ANN401 - as serve's
    """Serve as :func:`serve` does until a signal asks to end; return the exit code that is due."""
    codes: list[int] = []

    async def serve_on() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def end(code: int) -> None:
            codes.append(code)
            loop.call_soon_threadsafe(stop.set)

        with interruptible(end):
            await serve(publisher, *where, stop=stop, **how)

    asyncio.run(serve_on())
    return codes[0]
