"""Pages served on loopback for as long as somebody looks at them: of what is in a folder, or of a result.

That of a folder asks every two seconds whether it is still what the folder holds; that of a result has other amounts of
its limit solved for.
As others on the same machine reach loopback too, its address has a part that nobody guesses.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from optplan.contracts import Instance, Result, Solution
from optplan.errors import OptplanError, UsageError
from optplan.execution.cli.kinds import kind_of_folder
from optplan.execution.serving.store import is_from_own_page, is_own, is_right
from optplan.execution.trial_files import find_holder
from optplan.reporting.pages import build_page, require_packages
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside, Others
from optplan.reporting.trying import build_control, change_limit, write_state
from optplan.solving import solve

#: Where it is served, if that port is free, so that a tunnel stays what it is; else at any other.
_HOST, _PORT = "127.0.0.1", 8421
_NAMES = frozenset({_HOST, "localhost"})
#: The packed library, which a page that is there has already.
_PACKED = re.compile(r'(id="plotly">)[^<]*')
_NUMBER = re.compile(r"\d{1,30}(\.\d{1,30})?(e[+-]?\d{1,3})?", re.ASCII)
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}


#: What a page answers to the last part of an address and its query: a text, and its kind.
_Answer: TypeAlias = Callable[[str, str], tuple[str, str]]
_HTML, _JSON = "text/html; charset=utf-8", "application/json"
#: Seconds that solving for one amount may take.
_SOLVE_LIMIT_S = 60.0


class _Folder:
    """The page of a folder, built again whenever that has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self.state, self.page = dict[str, object](), ""
        self.look()

    def look(self) -> None:
        """Build the page again where it has to be; note which state it shows, and who is at work there."""
        with self._lock:
            kind, process = kind_of_folder(self._folder), find_holder(self._folder)
            version = f"{process} {kind.stamp(self._folder)}"
            if version != self.state.get("version"):
                told = kind.look(self._folder)
                said = kind.say_follower(told, self._folder, process)
                self.page = build_page(kind.build_page(told)._replace(live=said))
                self.state = {"version": version, "said": said, "alarm": said.startswith("nobody")}

    def answer(self, name: str, _: str) -> tuple[str, str]:
        """Return the page, the page but for its library, or its state."""
        alarm: dict[str, object] = {}
        try:
            self.look()
        except (OptplanError, OSError, ValueError) as error:  # files go, or hold anything, while they are read
            alarm = {"said": str(error), "alarm": True}
        if name == "state":
            return json.dumps(self.state | alarm), _JSON
        return (_PACKED.sub(r"\1", self.page) if name == "page" else self.page), _HTML


class _Report:
    """The report of a result, and what it would show for other amounts of its limit, each solved for when asked."""

    def __init__(self, instance: Instance, result: Result[Solution], beside: Beside) -> None:
        limit = next(iter(instance.limits), None) if beside.others is None else beside.others.limit
        if limit is None:
            raise UsageError(f"--serve: {instance.name!r} has no limit of which another amount could be tried")
        if result.solution is None:
            raise UsageError("--serve: the result has no plan to begin with; give one that has")
        self._build_page, self._lock = presenter_of(instance).build_page, threading.Lock()
        self._instance, self._limit, self._background = instance, limit, beside.background
        result = result.replace(on_trust=beside.verification.on_trust if beside.verification is not None else ())
        page = self._build_page(instance, result, beside)
        others = beside.others or Others(limit, [(instance.limit_as_given(limit)[0], instance, result)])
        control = page.control or build_control(self._build_page, instance, result, page, beside, others)
        self._parts, self._unit = control.data["parts"], control.data["own"] / instance.limit_as_given(limit)[0]
        self.page = build_page(page._replace(control=control._replace(data={**control.data, "serves": True})))

    def answer(self, name: str, query: str) -> tuple[str, str]:
        """Return the page, or what it shows for the amount that a query names."""
        if name != "solve":
            return self.page, _HTML
        try:
            with self._lock:
                return json.dumps(self._solve(parse_qs(query).get("amount", [""])[0]), allow_nan=False), _JSON
        except (OptplanError, ValueError) as error:
            return json.dumps({"says": str(error)}), _JSON

    def _solve(self, text: str) -> dict[str, Any]:
        amount = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not 0.0 < amount < math.inf:
            raise UsageError(f"got {text[:40]!r}; a {self._limit} above zero is needed")
        there = change_limit(self._instance, self._limit, amount / self._unit)
        result = solve(there, time_limit_s=_SOLVE_LIMIT_S)
        return write_state(self._build_page, there, result, self._limit, self._parts, background=self._background)


class _Server(ThreadingHTTPServer):
    """Serves a page, at an address that nobody guesses."""

    daemon_threads = True

    def __init__(self, answer: _Answer, port: int) -> None:
        self.answer, self.token = answer, secrets.token_urlsafe(16)
        super().__init__((_HOST, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - of the class above
        """Say nothing of a reader who is gone before the answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers whoever has the token, and asks from the page itself or from none."""

    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        _, token, name, *_ = [*path.split("/"), "", ""]
        headers = {name.title(): value for name, value in self.headers.items()}
        if not (is_own(headers, _NAMES) and is_from_own_page(headers) and is_right(self.server.token, token)):
            return self.send_error(404)
        text, kind = self.server.answer(name, query)
        self.send_response(200)
        for header in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(text.encode()))}.items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(text.encode())
        return None

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


def serve_page(folder: Path, on_ready: Callable[[str], None]) -> None:
    """Serve the page of a folder until Ctrl-C; ``on_ready`` gets the address."""
    require_packages()
    _serve(_Folder(folder).answer, on_ready)


def serve_report(instance: Instance, result: Result[Solution], beside: Beside, on_ready: Callable[[str], None]) -> None:
    """Serve the report of a result, and solve for what its readers try, until Ctrl-C; ``on_ready`` gets the address."""
    _serve(_Report(instance, result, beside).answer, on_ready)


def _serve(answer: _Answer, on_ready: Callable[[str], None]) -> None:
    try:
        server = _Server(answer, _PORT)
    except OSError:
        server = _Server(answer, 0)
    with server:
        on_ready(f"http://{_HOST}:{server.server_address[1]}/{server.token}/")
        server.serve_forever()
