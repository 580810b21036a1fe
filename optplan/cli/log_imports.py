"""``optplan import log``: an instance from a log of jobs."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import optplan
from optplan.cli.amending import amend, amendments_but
from optplan.cli.commands import command
from optplan.cli.console import Progress
from optplan.cli.imports import PRICE_SOURCE, PRICES, price_types, rename, require_target
from optplan.cli.options import (
    FILE,
    TIME,
    argument,
    by_name,
    flag,
    known_name,
    list_declared,
    named,
    option,
    with_options,
)
from optplan.cli.outputs import Outputs, deliver
from optplan.errors import DataWarning, UsageError, nearest_name_hint, show_value

if TYPE_CHECKING:
    from optplan.instances.job_logs import LogReading
    from optplan.instances.job_logs.columns import Jobs
    from optplan.instances.job_logs.naming import Classes
    from optplan.instances.job_logs.records import LeftOut, Rule
    from optplan.instances.model_cards import CardSpeedup
    from optplan.reporting.pages import Page
    from optplan.schema import FloatArray

#: Jobs of a class among which names are looked for that are shown.
_LOOKED_AT = 1000


def list_formats() -> list[str]:
    """List who writes logs that can be read."""
    from optplan.instances.job_logs import LogFormat

    return [form.value for form in LogFormat]


def _read_columns(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    """Read ``name=Job,submit=Queued``; click calls this."""
    columns: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",")):
        role, equals, name = part.partition("=")
        if not (equals and role.strip() and name.strip()) or role.strip() in columns:
            raise UsageError(f"{flag(option)}: got {part!r}; each column once is needed, as in name=Job,submit=Queued")
        columns[role.strip()] = name.strip()
    return columns


def _read_rule(text: str, *, what: str) -> Rule:
    from optplan.instances.job_logs.records import Rule

    if text not in list(Rule):
        raise UsageError(f"{what}: {show_value(text)} is not known; keep, count or drop are allowed")
    return Rule(text)


def _read_epochs(text: str, *, what: str) -> tuple[float, ...]:
    """Read ``2:4:3`` (relative sizes) or ``3`` (so many alike)."""
    try:
        shares = tuple(float(part) for part in text.split(":"))
        if len(shares) == 1:
            shares = (1.0,) * int(text)
    except ValueError:
        shares = ()
    if not shares or not all(0.0 < share < float("inf") for share in shares):
        raise UsageError(f"{what}: got {text!r}; a number of epochs (3) or their relative sizes (2:4:3) are needed")
    return shares


_BY_CLASS = by_name("give a value once for a class, as in vision=..., or for all")


def read_job_log(
    log: Path,
    *,
    form: str = option(
        "--from",
        required=True,
        metavar="FORMAT",
        help="sacct, kubernetes or csv.",
        **known_name("format", list_formats),
    ),
    columns: dict[str, str] = option(
        multiple=True,
        metavar="WHAT=NAME,...",
        callback=_read_columns,
        help="What a CSV calls its columns: id, name, submit, start, end, elapsed (seconds or 1-02:03:04), minutes, "
        "hours, gpus, gpu_type, state. The names that W&B, MLflow and many others use are known.",
    ),
    gpus: int | None = option(
        type=click.IntRange(min=1), metavar="N", help="GPUs of every job, where the table has no column."
    ),
    timezone: str = option(default="UTC", metavar="NAME", help="Of times that say none."),
    time_format: str | None = option(
        metavar="FORM", help="As strptime has it, such as '%d.%m.%Y %H:%M'; else ISO 8601."
    ),
    since: str | None = option(metavar="TIME", help="Only jobs submitted from then on; the log's first unless given."),
    until: str | None = option(metavar="TIME", help="Only jobs submitted before then; the log's last unless given."),
    rules: dict[str, Rule] = option(
        "--rule",
        **by_name("a state and a rule are needed, as in failed=drop", _read_rule, alone=False),
        metavar="STATE=RULE",
        help="What jobs that ended so stand for: keep (arrival and size), count (arrival only) or drop. Unless "
        "told otherwise, running and pending ones are counted, all others kept.",
    ),
    gpu_type: str | None = option(
        "--gpu", metavar="NAME", help="Only jobs on this GPU type; or its name, where the log has none."
    ),
    class_pattern: str | None = option(
        metavar="REGEX", help="Classes are what this finds in names: its group, if it has one."
    ),
    class_column: str | None = option(
        metavar="NAME", help="Classes are the entries of this column, or label of Kubernetes."
    ),
    yes: bool = option(is_flag=True, help="Take the classes that are suggested where neither is given."),
    throughputs: tuple[str, ...] = option(
        "--throughput",
        multiple=True,
        metavar="[CLASS=]FILE",
        help="Measured: CSV with class, gpus, samples_per_s, or what `optplan measure jobs` wrote of a class, JSON.",
    ),
    cards: dict[str, str] = option(
        "--card",
        **by_name("say of which class it is, as in llm=llama.json", alone=False),
        metavar="CLASS=FILE",
        help="Speedup of a language model by its card: what `optplan import card` wrote, or the card itself, for "
        "GPUs of the log's type as they are usually joined. The runs set the seconds; where they contradict the card, "
        "that is said, and its band widened.",
    ),
    assumed: dict[str, str] = option(
        "--assume",
        **_BY_CLASS,
        metavar="[CLASS=]LAW",
        help="Speedup where none is measured and you know it: amdahl:FRACTION (the serial one), power:EXPONENT or "
        "linear; for all classes whose jobs ran at one width only, or for one. Every answer says what rests on it.",
    ),
    fit_runs: dict[str, str] = option(
        **_BY_CLASS,
        metavar="[CLASS=]RUNS",
        help="Speedups that nobody states are fitted to the log's runs at several widths: to those that completed, "
        "which alone say how long a job takes, to all, or to none.",
    ),
    epochs: dict[str, tuple[float, ...]] = option(
        **by_name("give a value once for a class, as in vision=..., or for all", _read_epochs),
        metavar="[CLASS=]N",
        help="So many epochs alike, or their relative sizes, as in 2:4:3; one unless given.",
    ),
    max_width: int | None = option(
        type=click.IntRange(min=1),
        metavar="N",
        help="Largest width where a formula says the speedup; the widest of the log (8 at least), and of fitted ones "
        "at most twice the widest that ran, unless given.",
    ),
    rescale: float | None = option(type=TIME, help="What a start or a change of width costs: 90s."),
) -> tuple[optplan.BoaInstance, Classes, dict[str, FloatArray]]:
    """Read a log by the options of ``optplan import log``: the instance, the jobs of each class, the hours of each."""
    from optplan.instances.job_logs import LogFormat, LogReading, read_log
    from optplan.instances.job_logs.boa import LogTerms, build_log_instance
    from optplan.instances.job_logs.records import RULES, read_ending
    from optplan.instances.job_logs.speedups import Measured, SpeedupSources, list_types, read_measured

    if class_pattern is not None and class_column is not None:
        raise UsageError("--class-pattern, --class-column: give one of them")
    rules = {read_ending(state): rule for state, rule in rules.items()}
    useless = {"--columns": columns, "--gpus": gpus, "--time-format": time_format} if form != LogFormat.CSV else {}
    for each, given in useless.items():
        if given:
            raise UsageError(f"{each}: a log of {form} says that itself; leave it out")
    reading = LogReading(
        LogFormat(form),
        timezone=timezone,
        time_format=time_format,
        columns=columns,
        class_column=class_column,
        gpus=gpus,
        rules=RULES | rules,
        since=since,
        until=until,
        gpu_type=gpu_type,
    )
    measured = Measured({})
    for text in throughputs:
        class_name, equals, path = text.rpartition("=")
        measured = measured.add(read_measured(Path(path), class_name if equals else ""))
    with Progress("reading the log"), _collecting_nothing():
        jobs, left_out = read_log(log, reading)
        _tell_idle_rules(rules, jobs.words)
        classes, said = _find_classes(jobs, class_pattern, class_column, left_out)
    if class_pattern is None and class_column is None and not yes:
        _confirm(classes)
    terms = LogTerms(
        name=log.stem,
        source=_tell_reading(log, reading, rules),
        classes=said,
        since_s=reading.since_s,
        until_s=reading.until_s,
        gpu_type=gpu_type,
        max_width=max_width,
        rescale_s=rescale,
        epochs=epochs,
    )
    with _collecting_nothing():
        ran = {*jobs.gpus.tolist(), *(gpus for points, _ in measured.throughputs.values() for gpus in points)}
        found = _read_cards(cards, list_types(jobs) if gpu_type is None else [gpu_type], ran, max_width)
        sources = SpeedupSources(measured, assumed, fit_runs=fit_runs, cards=found)
        made, sizes = build_log_instance(classes, sources, terms, left_out)
    return made, classes, sizes


#: Parameters of :func:`read_job_log` that are options.
LOG_OPTIONS = tuple(str(each.name) for each in list_declared(read_job_log))


@command(
    name="log",
    short_help="From a log of jobs: sacct, kubectl, CSV, W&B, MLflow.",
    examples=(
        "optplan import log jobs.txt --from sacct --timezone Europe/Berlin --class-pattern '^[a-z]+' "
        "--throughput throughput.csv --price 0.978usd/hour -o mine.json",
        "optplan import log jobs.json --from kubernetes --class-column app --throughput vision=vision.json --json",
        "optplan import log runs.csv --from csv --columns 'name=Job,submit=Queued,hours=Run' --gpus 4 --yes --json",
    ),
    renamed=named("timezone", "since", "until", "columns", "gpus", "class-pattern", "assume")
    | {"span": "--since, --until"},
    writes={
        "output": "the instance as JSON; needed unless --json is given",
        "jobs": "Write the jobs that count, with class and size; CSV, or Parquet where the name ends so.",
        "report": "Write an HTML report: GPUs that jobs held and waited for over time, their sizes and waits.",
    },
)
@with_options(list_declared(read_job_log))
@amendments_but("deadline")
def import_log(
    log: Path = argument(metavar="LOG", type=FILE),
    *,
    prices: dict[str, float | str] = option(
        "--price",
        **PRICES,
        help="Of one GPU, such as 0.978usd/hour, lambda:H100, azure:T4@eastus:spot or runpod-2026-05.csv:H100.",
    ),
    price_source: str | None = PRICE_SOURCE,
    name: str | None = option(metavar="NAME", help="Name of the instance; the log's unless given."),
    outputs: Outputs,
    **options: Any,  # noqa: ANN401 - those that say how the log is read, and those that change the instance
) -> int:
    """Make a BOA instance from a LOG of jobs: what arrives how often, how large it is, how it speeds up.

    sacct is what `sacct --parsable2` prints, kubernetes what `kubectl get jobs -o json` (or pods) does; csv is any
    table with a line of names. Everything that is left out or assumed is said in the field source of the instance.
    """
    from optplan.instances.csv_tables import is_parquet, load_polars
    from optplan.instances.job_logs.jobs_table import write_jobs

    require_target(outputs)
    if is_parquet(outputs.path("--jobs") or log.with_suffix("")):
        load_polars()  # before the work, and before anything is written
    made, classes, sizes = read_job_log(log, **{each: options.pop(each) for each in LOG_OPTIONS})
    instance = amend(rename(price_types(made, prices, price_source), name), options)
    assert isinstance(instance, optplan.BoaInstance)
    outputs.save("--jobs", lambda path: write_jobs(classes, sizes, path, overwrite=outputs.force))
    outputs.save_page("--report", lambda: _build_page(instance, classes, sizes, log.stem))
    return deliver(instance, outputs)


def _build_page(instance: optplan.BoaInstance, classes: Classes, sizes: dict[str, FloatArray], name: str) -> Page:
    from optplan.instances.job_traces import gather_trace
    from optplan.reporting.boa.logs import build_log_page

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the page says what is left out
        trace = gather_trace(instance, classes, sizes, name)
    return build_log_page(instance, trace)


def _read_cards(
    cards: dict[str, str], types: list[str], ran: set[int], max_width: int | None
) -> dict[str, CardSpeedup]:
    """Read the cards of classes; what has to be computed is so at the widths that ran, and their doublings."""
    from optplan.instances.model_cards import read_card_speedup

    most = max_width or max(ran, default=1)
    widths = sorted({width for width in ran if width <= most} | {1 << power for power in range(most.bit_length())})
    return {name: read_card_speedup(Path(path), types, widths) for name, path in cards.items()}


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """Look for no cycles among millions of rows, which have none: that would take a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _find_classes(jobs: Jobs, pattern: str | None, column: str | None, left_out: LeftOut) -> tuple[Classes, str]:
    from optplan.instances.job_logs.naming import class_by_label, class_by_pattern, suggest_classes

    if pattern is not None:
        return class_by_pattern(jobs, pattern, left_out), f"what {pattern!r} finds in the jobs' names"
    if column is not None:
        return class_by_label(jobs), f"the column {column!r}"
    return suggest_classes(jobs), "as suggested by stems of names and sizes"


def _confirm(classes: Classes) -> None:
    """Show classes on stderr and ask whether they will do."""
    for name, members in classes.items():
        names = list(dict.fromkeys(members.name[:_LOOKED_AT].tolist()))
        click.echo(f"{name}: {len(members):,} jobs, such as {', '.join(names[:3]) or 'unnamed ones'}", err=True)
    ways = "--class-pattern REGEX or --class-column NAME"
    if not sys.stdin.isatty():
        raise UsageError(f"--yes: these classes are only suggested; take them by --yes, or name others by {ways}")
    if not click.confirm("Take these classes?", err=True):
        raise UsageError(f"--yes: name other classes by {ways}")


def _tell_idle_rules(rules: dict[str, Rule], words: Iterable[str]) -> None:
    """Warn of rules for endings that no job had and that nobody knows: they may be misspelt."""
    from optplan.instances.job_logs.records import RULES

    for state in rules.keys() - RULES.keys() - {*words}:
        warnings.warn(
            f"--rule: no job ended as {state!r}; {nearest_name_hint(state, RULES)}", DataWarning, stacklevel=2
        )


def _tell_reading(log: Path, reading: LogReading, rules: dict[str, Rule]) -> dict[str, str]:
    from optplan.instances.job_logs.records import Rule

    source = {"log": f"{log.name}, {reading.form}", "time zone": f"{reading.timezone} where the log says none"}
    stand = {rule: ", ".join(ending for ending, its in reading.rules.items() if its is rule) for rule in Rule}
    means = {Rule.KEEP: "arrivals and sizes", Rule.COUNT: "arrivals only", Rule.DROP: "nothing"}
    source["load"] = "; ".join(f"{means[rule]}: {endings}" for rule, endings in stand.items() if endings)
    if rules:
        source["rules"] = ", ".join(f"{ending}: {rule}" for ending, rule in rules.items())
    if reading.gpus is not None:
        source["GPUs of a job"] = f"assumed: {reading.gpus}"
    return source
