"""The page of what is in a folder, served on loopback for as long as somebody looks at it.

It is the page that ``optplan report`` writes, which asks every two seconds whether it is still what the folder holds.
As others on the same machine reach loopback too, its address has a part that nobody guesses.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from optplan.errors import OptplanError
from optplan.execution.cli.kinds import find_process, kind_of_folder
from optplan.execution.serving.access import is_from_own_page, is_own, is_right
from optplan.reporting.pages import build_page, require_packages

#: Where it is served, if that port is free, so that a tunnel stays what it is; else at any other.
_HOST, _PORT = "127.0.0.1", 8421
_NAMES = frozenset({_HOST, "localhost"})
#: The packed library, which a page that is there has already.
_PACKED = re.compile(r'(id="plotly">)[^<]*')
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}


class _Server(ThreadingHTTPServer):
    """Serves the page of a folder, built again whenever that has changed."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._lock, self.token = folder, threading.Lock(), secrets.token_urlsafe(16)
        self.state, self.page = dict[str, object](), ""
        self.look()
        super().__init__((_HOST, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - of the class above
        """Say nothing of a reader who is gone before the answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def look(self) -> None:
        """Build the page again where it has to be; note which state it shows, and who is at work there."""
        with self._lock:
            kind, process = kind_of_folder(self._folder), find_process(self._folder)
            version = f"{process} {kind.stamp(self._folder)}"
            if version != self.state.get("version"):
                told = kind.look(self._folder)
                said = kind.say_follower(told, self._folder, process)
                self.page = build_page(kind.build_page(told)._replace(live=said))
                self.state = {"version": version, "said": said, "alarm": said.startswith("nobody")}


class _Handler(BaseHTTPRequestHandler):
    """Answers with the page, with the page but for its library, and with its state."""

    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        _, token, name, *_ = [*self.path.split("/"), "", ""]
        headers = {name.title(): value for name, value in self.headers.items()}
        if not (is_own(headers, _NAMES) and is_from_own_page(headers) and is_right(self.server.token, token)):
            return self.send_error(404)
        alarm: dict[str, object] = {}
        try:
            self.server.look()
        except (OptplanError, OSError, ValueError) as error:  # files go, or hold anything, while they are read
            alarm = {"said": str(error), "alarm": True}
        if name == "state":
            return self._answer(json.dumps(self.server.state | alarm), "application/json")
        page = self.server.page
        return self._answer(_PACKED.sub(r"\1", page) if name == "page" else page, "text/html; charset=utf-8")

    def _answer(self, text: str, kind: str) -> None:
        self.send_response(200)
        for header in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(text.encode()))}.items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


def serve_page(folder: Path, on_ready: Callable[[str], None]) -> None:
    """Serve the page of a folder until Ctrl-C; ``on_ready`` gets the address."""
    require_packages()
    try:
        server = _Server(folder, _PORT)
    except OSError as error:
        if isinstance(error, OptplanError):
            raise
        server = _Server(folder, 0)
    with server:
        on_ready(f"http://{_HOST}:{server.server_address[1]}/{server.token}/")
        server.serve_forever()
