"""``optplan serve``: BOA's width calculator as a service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from optplan.cli.commands import command
from optplan.cli.console import note
from optplan.cli.options import BUDGET, DIR, TIME, Kind, argument, option, parse_share
from optplan.errors import UsageError
from optplan.units import SECONDS_PER_HOUR, Amount

_DEFAULT_PORT = 8420
_LARGEST_PORT = 65535
#: Seconds between two calculations that there may be, and between two questions to sacct.
_BEAT_S, _ASK_S = 1.0, 60.0


def _parse_part(text: str, *, what: str) -> float:
    """Read a part as ``5%`` or ``0.05``."""
    part = parse_share(text)
    if not 0.0 <= part <= 1.0:
        raise UsageError(f"{what}: got {text!r}; a part of up to 100% is needed, as in 5%")
    return part


def _parse_listen(text: str, *, what: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) <= _LARGEST_PORT):
        raise UsageError(f"{what}: got {text!r}; HOST:PORT is needed, as in 127.0.0.1:{_DEFAULT_PORT}")
    return host.removeprefix("[").removesuffix("]"), int(port)


_PART = Kind("PART", _parse_part)


@command(
    short_help="Hand out widths that follow the jobs, as a service (boa).",
    examples=(
        "optplan serve state --instance boa-newtrace --budget 120gpu",
        "optplan serve state --slurm --class-pattern '^[a-z0-9]+'",
    ),
    renamed={"new_speedup": "--new-speedup", "every_s": "--every", "window_h": "--window"},
)
def serve(
    folder: Path = argument(metavar="STATE", type=DIR),
    *,
    instance: str | None = option(metavar="NAME", help="Instance (name or file) to begin with; kept in STATE."),
    budget: Amount | None = option(type=BUDGET, help="Its budget: 120gpu, 30000usd/month."),
    listen: tuple[str, int] = option(
        type=Kind("HOST:PORT", _parse_listen),
        default=f"127.0.0.1:{_DEFAULT_PORT}",
        help="Where to listen; port 0 takes a free one.",
    ),
    slurm: bool = option(is_flag=True, help="Ask sacct every minute.", show_default=False),
    class_pattern: str = option(metavar="REGEX", default="", help="Finds a job's class in its name."),
    window: float | None = option(type=TIME, help="What was seen so long ago weighs 1/e: 72h."),
    every: float | None = option(type=TIME, help="Calculate again at the latest after: 15min."),
    move: float | None = option(type=_PART, help="Calculate at once where something moved by: 5%."),
    hold_budget: str | None = option(
        type=click.Choice(["no", "debt", "repaid"]),
        help="How the budget holds on other arrivals: the price of GPUs follows what was committed, and leaves a debt, "
        "or repays it in the long run; no unless given.",
    ),
    least_gain: float | None = option(type=_PART, help="Publish from this gain on: 2%."),
    new_speedup: str | None = option(
        metavar="LAW",
        help="What new classes are taken for until they are measured: linear unless given, amdahl:FRACTION or "
        "power:EXPONENT.",
    ),
    gpus_per_node: int | None = option(type=click.IntRange(min=1), help="Of the nodes that AdaptDL's hints come from."),
    as_json: bool,  # noqa: ARG001 - what it prints is the address alone
) -> int:
    """Keep width tables that follow the jobs, in the folder STATE, until SIGINT or SIGTERM.

    Everything needs the token that lies in STATE/token; the address lies in STATE/address, the table in
    STATE/widths.json. Killed at any moment, it goes on where it was: `optplan serve STATE`.
    """
    import logging

    from optplan.execution.serving.access import read_token
    from optplan.execution.serving.accounting import SlurmJobs
    from optplan.execution.serving.publisher import Publisher, publish_file
    from optplan.execution.serving.service import run
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.instances.files import read_instance

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    given = None if instance is None else read_instance(instance, BoaInstance)
    if budget is not None:
        if given is None:
            raise UsageError("--budget: goes with --instance, whose budget it is; give both")
        given = given.replace(budget=budget)
    hours = None if window is None else window / SECONDS_PER_HOUR
    terms: dict[str, Any] = {"window_h": hours, "every_s": every, "move": move, "hold_budget": hold_budget}
    terms |= {"least_gain": least_gain, "new_speedup": new_speedup, "gpus_per_node": gpus_per_node}
    jobs = SlurmJobs(class_pattern)
    publisher = Publisher(folder, given, {name: value for name, value in terms.items() if value is not None})

    def tell(address: str) -> None:
        publish_file(folder / "address", address + "\n")
        note(f"serving {publisher.view.instance.name or 'widths'} at {address}; the token lies in {folder / 'token'}")

    try:
        publisher.start()
        looks: list[tuple[Callable[[], object], float]] = [(publisher.calculate, _BEAT_S)]
        if slurm:
            looks.append((partial(jobs.tell, publisher), _ASK_S))
        return run(publisher, read_token(folder), *listen, on_ready=tell, looks=looks)
    finally:
        publisher.stop()
