"""``optplan serve``: BOA's width calculator as a service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from optplan.cli.commands import command
from optplan.cli.console import note
from optplan.cli.options import BUDGET, DIR, Kind, argument, flag, list_fields, option, parse_share, with_options
from optplan.errors import UsageError
from optplan.execution.online.fields import ServiceFields, TermFields
from optplan.units import Amount

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


#: What fills fields of the calculator's terms.
_TERMS = [
    *list_fields(TermFields),
    *list_fields(ServiceFields, kinds=dict.fromkeys(("move", "least_gain"), Kind("PART", _parse_part))),
]


@command(
    short_help="Hand out widths that follow the jobs, as a service (boa).",
    examples=(
        "optplan serve state --instance boa-newtrace --budget 120gpu",
        "optplan serve state --slurm --class-pattern '^[a-z0-9]+'",
    ),
    renamed={str(each.name): flag(each) for each in _TERMS},
)
@with_options(_TERMS)
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
    as_json: bool,  # noqa: ARG001 - what it prints is the address alone
    **terms: Any,  # noqa: ANN401 - fields of the calculator's, None where they were not given
) -> int:
    """Keep width tables that follow the jobs, in the folder STATE, until SIGINT or SIGTERM.

    Everything needs the token that lies in STATE/token; the address lies in STATE/address, the table in
    STATE/widths.json. Killed at any moment, it goes on where it was: `optplan serve STATE`.
    """
    import logging

    from optplan.execution.serving.accounting import SlurmJobs
    from optplan.execution.serving.publisher import Publisher, publish_file
    from optplan.execution.serving.service import run
    from optplan.execution.serving.store import read_token
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.instances.files import read_instance

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    given = None if instance is None else read_instance(instance, BoaInstance)
    if budget is not None:
        if given is None:
            raise UsageError("--budget: goes with --instance, whose budget it is; give both")
        given = given.replace(budget=budget)
    if class_pattern and not slurm:
        raise UsageError("--class-pattern: finds the classes of Slurm's jobs; give --slurm as well, or leave it out")
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
