"""What goes to the user: answers to stdout, everything else (progress, warnings, errors, files written) to stderr."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import click

from optplan.errors import OutputError, one_line, show_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from optplan.progress import Event

#: What rich shows; it loads on use.
Shown: TypeAlias = "RenderableType"

#: Where a command keeps that it is quiet.
_QUIET = "optplan.quiet"
#: Work that is done by then shows no progress.
_DELAY_S = 1.0
#: Between two lines where there is no terminal, at least.
_TELL_S = 10.0
#: How often a second the line of progress is drawn.
_REFRESHES_PER_S = 4
#: Columns of a table that is not written to a terminal; ``COLUMNS`` overrides it.
_PIPED_WIDTH = 160


def print_json(data: object) -> None:
    """Write plain data to stdout as JSON."""
    from optplan.instances.files import format_json

    print_text(format_json(data) + "\n")


def print_either(data: object, text: str, *, as_json: bool) -> None:
    """Write plain data to stdout as JSON where that is asked for, else a text as it is."""
    if as_json:
        print_json(data)
    else:
        print_text(text)


def print_text(text: str) -> None:
    """Write text to stdout as it is."""
    with _writing_stdout():
        click.echo(text, nl=False)


def print_answer(*parts: RenderableType) -> None:
    """Write text and tables to stdout."""
    from rich.console import Console

    from optplan.reporting.tables import write_parts

    with _writing_stdout():
        fits_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
        console = Console(width=None if fits_terminal else _PIPED_WIDTH, highlight=False, emoji=False)
        shown, color = write_parts(console, parts), color_wanted()
        click.echo(shown, nl=False, color=True if color is None and console.is_terminal else color)


def color_wanted() -> bool | None:
    """Return False where the user wants no colours (``NO_COLOR``, no-color.org), None where the terminal decides."""
    return False if os.environ.get("NO_COLOR") else None


@contextmanager
def _writing_stdout() -> Iterator[None]:
    """Call a stdout that takes nothing, closed or on a full disk, an output error with the system's reason."""
    # A pipe whose reader has left, as in ``optplan ... | head``, is none: files that were asked for are still written.
    if sys.stdout is None:  # what Python makes of a descriptor that is closed
        raise OutputError("stdout is closed; the answer has nowhere to go")
    try:
        yield
    except BrokenPipeError:
        # Python writes what is left in the buffer when it ends, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise OutputError(f"stdout cannot be written ({error.strerror or error}); send it to another place") from None


def be_quiet(ctx: click.Context, _: click.Parameter, wanted: object) -> None:
    """Let a command write nothing to stderr but warnings and errors, where that is wanted; click calls this."""
    ctx.meta[_QUIET] = wanted


def _is_quiet() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_QUIET))


def _in_notebook() -> bool:
    return "IPython" in sys.modules and hasattr(sys.modules["IPython"].get_ipython(), "kernel")


def note(text: str) -> None:
    """Write a line to stderr, unless the user wants quiet."""
    if not _is_quiet():
        click.echo(one_line(text), err=True)


def warn(text: str) -> None:
    """Write a warning to stderr."""
    click.echo(f"{click.style('warning:', fg='yellow')} {one_line(text)}", err=True, color=color_wanted())


@contextmanager
def tidy_warnings() -> Iterator[None]:
    """Show warnings on stderr without file names and line numbers, each text once."""
    from optplan.errors import DataWarning, RegistrationWarning

    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            warn(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.simplefilter("always", RegistrationWarning)
        warnings.showwarning = show
        yield


class Progress:
    """One line about work that takes more than a second; it leaves nothing behind.

    On stderr, if that is a terminal, and in a notebook below the cell. Its ``listen`` is the ``on_event`` of whatever
    takes one, within ``with optplan.Progress("solving") as progress:``.

    Parameters
    ----------
    title
        What is being done.
    unit
        Of objectives and bounds.
    tells
        Where stderr is no terminal, work of minutes tells a line at times, too.
    """

    def __init__(self, title: str, unit: str = "", *, tells: bool = False) -> None:
        self._title = title
        self._unit = unit
        self._tells = tells and not sys.stderr.isatty()
        self._told = self._drawn = time.perf_counter()
        self._event: Event | None = None
        self._start = time.perf_counter()
        self._lock = threading.Lock()
        self._done = False
        self._live: Live | None = None
        self._cell: Any = None
        self._timer = threading.Timer(_DELAY_S, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Wait a second before anything is shown."""
        if sys.stderr.isatty() and not _is_quiet():
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line."""
        self._timer.cancel()
        with self._lock:
            self._done = True
            if self._live is not None:
                self._live.stop()
        if self._cell is not None:
            self._cell.update({"text/plain": ""}, raw=True)

    def listen(self, event: Event) -> None:
        """Take note of an event; it is drawn at the next refresh."""
        self._event = event
        if _in_notebook() and time.perf_counter() >= self._start + _DELAY_S:
            self._show_below_cell()
        if self._tells and time.perf_counter() >= self._told + _TELL_S:
            self._told = time.perf_counter()
            note(self.line())

    def line(self) -> str:
        """Say where the work is."""
        parts = [f"{self._title}, {time.perf_counter() - self._start:.0f} s"]
        event = self._event
        if event is not None:
            parts.append(event.stage)
            parts += [
                f"{name} {value:.6g} {self._unit}".rstrip()
                for name, value in (("objective", event.objective), ("bound", event.bound))
                if value is not None
            ]
            if event.fraction is not None:
                parts.append(f"{event.fraction:.0%}")
        return " | ".join(parts)

    def _show_below_cell(self) -> None:
        from IPython.display import display

        shown = {"text/plain": show_text(self.line())}
        if self._cell is None:
            self._cell = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        elif time.perf_counter() >= self._drawn + 1.0 / _REFRESHES_PER_S:
            self._cell.update(shown, raw=True)
        else:
            return
        self._drawn = time.perf_counter()

    def _show(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        def draw() -> Text:
            return Text(show_text(self.line()), no_wrap=True, overflow="ellipsis")

        with self._lock:
            if not self._done:
                self._live = Live(
                    get_renderable=draw,
                    console=Console(stderr=True, markup=False),
                    transient=True,
                    refresh_per_second=_REFRESHES_PER_S,
                )
                self._live.start(refresh=True)
