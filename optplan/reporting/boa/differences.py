"""Two of BOA's instances, results or plans side by side: what their answers say as a whole, and class by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

from optplan.contracts import Plan, Result, Solution
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, BoaSolution
from optplan.formulations.boa.planning import BoaPlan
from optplan.reporting.boa.breakdown import require_boa
from optplan.reporting.boa.data_differences import (
    compare_class,
    compare_gpu_types,
    compare_settings,
    price_fact,
    rate_fact,
)
from optplan.reporting.comparison import Compared, nothing_in_common
from optplan.reporting.differences import (
    COUNT,
    GPUS,
    LEAST,
    SECONDS,
    SHARE,
    Answer,
    Difference,
    Fact,
    measures_of,
    merge_names,
    pair_facts,
    pair_presence,
    state_bound,
    unit_words,
)
from optplan.reporting.phrases import ROUNDING, count_gpus, format_gpus
from optplan.units import HOURS_PER_DAY, HOURS_PER_MONTH, BudgetUnit

_ANSWER = "answer"
_TYPE = "gpus."


def compare_sides(a: Compared, b: Compared) -> list[Difference]:
    """Compare two instances, results or plans class by class; refuse those that have nothing in common."""
    rows: list[Difference] = []
    if a.instance is not None and b.instance is not None:
        instances = require_boa(a.instance), require_boa(b.instance)
        rows += [*compare_settings(*instances), *compare_gpu_types(*instances)]
    else:
        rows += _compare_prices(a, b)
    if a.answer is not None and b.answer is not None:
        rows += compare_answers(a.answer, b.answer, types=_name_types(a, b))
    elif a.kind != b.kind and "result" in (a.kind, b.kind):
        raise nothing_in_common(a, b)
    known_a, known_b = _list_classes(a), _list_classes(b)
    if known_a and known_b:  # an answer without a plan names no classes
        for name in merge_names(known_a, known_b):
            in_a, in_b = name in known_a, name in known_b
            alone = pair_presence(name, "class", f"classes.{name}", in_a=in_a, in_b=in_b)
            rows += _compare_class(a, b, name) if in_a and in_b else [alone]
    return rows


def _compare_class(a: Compared, b: Compared, name: str) -> list[Difference]:
    rows: list[Difference] = []
    rates = (_rates(a), _rates(b))
    if a.instance is not None and b.instance is not None:
        rows += compare_class(require_boa(a.instance), require_boa(b.instance), name)
    elif rates[0] is not None and rates[1] is not None:
        rows += pair_facts([rate_fact(name, rates[0][name])], [rate_fact(name, rates[1][name])])
    if a.answer is not None and b.answer is not None:
        rows += compare_class_answers(name, a.answer, b.answer)
        types = _name_types(a, b)
        paths = [list_paths(one, only_type=of).get(name) for one, of in zip((a.answer, b.answer), types, strict=True)]
        if paths[0] and paths[1]:
            rows += compare_paths(name, paths[0], paths[1])
    return rows


def _compare_prices(a: Compared, b: Compared) -> list[Difference]:
    """List the prices where both know some, without the other data of GPU types."""
    prices_a, prices_b = _prices(a), _prices(b)
    if prices_a is None or prices_b is None:
        return []
    rows = []
    for name in merge_names(prices_a, prices_b):
        rows += pair_facts(
            *([price_fact(name, known[name])] if name in known else [] for known in (prices_a, prices_b))
        )
    return rows


def _prices(side: Compared) -> dict[str, float] | None:
    """Return US dollars per hour by GPU type; None where prices are not among the data."""
    if side.instance is not None:
        types = require_boa(side.instance).gpu_types
        return {n: t.price_usd_per_hour for n, t in types.items() if t.price_usd_per_hour is not None}
    if isinstance(side.answer, Plan):
        return side.answer.prices
    return None


def _rates(side: Compared) -> Mapping[str, float] | None:
    """Return arrivals per hour by class; None where they are not among the data."""
    if side.instance is not None:
        return {name: c.arrival_rate_per_hour for name, c in require_boa(side.instance).classes.items()}
    return side.answer.arrival_rate_per_hour if isinstance(side.answer, BoaPlan) else None


def _list_classes(side: Compared) -> list[str]:
    rates = _rates(side)
    if rates is not None:
        return list(rates)
    return [] if side.answer is None else list(list_paths(side.answer))


def _name_types(a: Compared, b: Compared) -> tuple[str, str]:
    """Name the GPU type of each answer that has one only, where it does not go without saying."""
    known_a, known_b = _only_type(a), _only_type(b)
    if known_a and known_b:
        return ("", "") if known_a == known_b else (known_a, known_b)
    return known_a if _names_types(b) else "", known_b if _names_types(a) else ""


def _names_types(side: Compared) -> bool:
    paths = {} if side.answer is None else list_paths(side.answer)
    return any(held.gpu_type for of_class in paths.values() for path in of_class for held in path.held[:1])


def _only_type(side: Compared) -> str:
    """Return the GPU type where it is known that there is one only, else nothing."""
    types = set()
    if side.instance is not None:
        types = set(require_boa(side.instance).gpu_types)
    elif isinstance(side.answer, BoaPlan):
        types = set(side.answer.resources)
    return types.pop() if len(types) == 1 else ""


def note_sides(a: Compared, b: Compared) -> list[str]:
    """Say that two instances ask different problems, if they do."""
    if not isinstance(a.instance, BoaInstance) or not isinstance(b.instance, BoaInstance):
        return []
    if a.instance.problem is b.instance.problem:
        return []
    asked = f"A asks the {a.instance.problem.value} problem and B the {b.instance.problem.value} one"
    return [f"{asked}: a plan of one may not do for the other"]


def compare_answers(a: Answer, b: Answer, *, types: tuple[str, str] = ("", "")) -> list[Difference]:
    """List what two answers say as a whole; ``types`` are the GPU types of those that name none, or empty."""
    weighted = any(_is_weighted(measures_of(answer)) for answer in (a, b))
    figures = (_state_figures(answer, only, weighted=weighted) for answer, only in zip((a, b), types, strict=True))
    if not (isinstance(a, Result) and isinstance(b, Result)):
        return pair_facts(*figures)
    status = ([Fact(_ANSWER, "status", "status", answer.status.value)] for answer in (a, b))
    return [*pair_facts(*status), *pair_facts(*figures), *pair_facts(_state_limits(a), _state_limits(b))]


def compare_class_answers(name: str, a: Answer, b: Answer) -> list[Difference]:
    """List completion time and GPUs of a class; empty where one of the answers has no plan."""
    facts_a, facts_b = _state_class(name, a), _state_class(name, b)
    return pair_facts(facts_a, facts_b) if facts_a and facts_b else []


def _state_class(name: str, answer: Answer) -> list[Fact]:
    measures, path = measures_of(answer), f"classes.{name}"
    figures = (("mean completion time", "mean_jct_s", SECONDS), ("GPUs on average", "gpus", GPUS))
    return [
        Fact(name, what, f"{path}.{part}", measures[f"{path}.{part}"], unit)
        for what, part, unit in figures
        if f"{path}.{part}" in measures
    ]


def _is_weighted(measures: Mapping[str, float]) -> bool:
    mean, weighted = measures.get("mean_jct_s"), measures.get("weighted_mean_jct_s")
    return mean is not None and weighted is not None and abs(mean - weighted) > ROUNDING * abs(mean)


def _state_figures(answer: Answer, only_type: str, *, weighted: bool) -> list[Fact]:
    """State solver, completion time, proof, GPUs and cost."""
    measures = measures_of(answer)
    facts = [Fact(_ANSWER, "solver", "solver", answer.solver)]
    times = [("mean completion time", "mean_jct_s")]
    times += [("weighted mean completion time", "weighted_mean_jct_s")] if weighted else []
    facts += [Fact(_ANSWER, what, part, measures[part], SECONDS) for what, part in times if part in measures]
    facts += state_bound(answer)
    counts = (("GPUs on average", "gpus"), ("of them rescaling", "gpus_rescaling"))
    facts += [Fact(_ANSWER, what, part, measures[part], GPUS) for what, part in counts if part in measures]
    by_type = {part.removeprefix(_TYPE): used for part, used in measures.items() if part.startswith(_TYPE)}
    if only_type and "gpus" in measures:
        by_type = {only_type: measures["gpus"]}
    facts += [Fact(_ANSWER, f"{name} GPUs on average", f"{_TYPE}{name}", used, GPUS) for name, used in by_type.items()]
    facts += _state_cost(measures)
    if "rescales_per_job" in measures:
        facts.append(Fact(_ANSWER, "pauses a job", "rescales_per_job", measures["rescales_per_job"], COUNT))
    return facts


def _state_cost(measures: Mapping[str, float]) -> list[Fact]:
    usd_per_hour = measures.get("cost_usd_per_hour")
    if usd_per_hour is None:
        return []
    periods = (("an hour", "hour", 1.0), ("a day", "day", HOURS_PER_DAY), ("a month", "month", HOURS_PER_MONTH))
    return [
        Fact(_ANSWER, f"cost {words}", f"cost_usd_per_{period}", usd_per_hour * hours, f"usd/{period}")
        for words, period, hours in periods
    ]


def _state_limits(result: Result[Solution]) -> list[Fact]:
    """State what limits are worth, or how far they would have to be relaxed."""
    facts = []
    for limit, price in result.shadow_prices.items():
        one, path = _name_one(limit, price.unit), f"shadow_prices.{limit}"
        eased, tightened = ("less", "more") if limit.startswith(FLOOR) else ("more", "less")
        facts.append(Fact(_ANSWER, f"one {eased} {one} saves", f"{path}.more", price.more, price.unit))
        if price.less is not None:
            facts.append(Fact(_ANSWER, f"one {one} {tightened} costs", f"{path}.less", price.less, price.unit))
    relaxations = result.infeasibility.relaxations if result.infeasibility is not None else ()
    return facts + [
        Fact(
            _ANSWER,
            f"{'highest' if r.limit.startswith(FLOOR) else 'least'} {r.limit} that "
            f"{'may work' if r.enough is None else 'works'}, in {unit_words(r.unit)}",
            f"{LEAST}{r.limit}.least_feasible",
            r.least_feasible,
            r.unit,
        )
        for r in relaxations
    ]


def _name_one(limit: str, unit: str) -> str:
    """Name one unit of a limit: ``GPU``, ``dollar an hour``, ``GPU of a100's quota``."""
    if limit.startswith(DUE):
        return f"second of {limit.removeprefix(DUE)}'s due date"
    if limit.startswith(FLOOR):
        return f"GPU of {limit.removeprefix(FLOOR)}'s floor"
    one = unit.rpartition(" per ")[2].replace(BudgetUnit.USD_PER_HOUR, "dollar an hour")
    return one if limit == BUDGET else f"{one} of {limit.removeprefix(QUOTA)}'s quota"


@dataclass(frozen=True)
class Held:
    """GPUs that a job holds in an epoch; ``gpu_type`` is empty where the instance has one type."""

    gpus: float
    gpu_type: str = ""

    def __str__(self) -> str:
        """Write them: ``8``, ``8 a100``."""
        return f"{format_gpus(self.gpus)} {self.gpu_type}".strip()


@dataclass(frozen=True)
class Path:
    """What a share of a class's jobs holds, epoch by epoch."""

    share: float
    held: tuple[Held, ...]


def list_paths(answer: Result[Solution] | Plan, *, only_type: str = "") -> dict[str, tuple[Path, ...]]:
    """Return the paths of each class, none without a plan; ``only_type`` is the GPU type where it names none."""
    rows: dict[str, list[tuple[float, list[float], tuple[str, ...] | None]]] = {}
    if isinstance(answer, BoaPlan):
        rows = {
            name: [(row.share, row.gpus.tolist(), row.gpu_types) for row in table]
            for name, table in answer.width_table.items()
        }
    elif isinstance(answer, Result) and isinstance(answer.solution, BoaSolution):
        rows = {
            name: [(branch.fraction, branch.widths.tolist(), branch.gpu_types) for branch in branches]
            for name, branches in answer.solution.branches.items()
        }
    return {name: tuple(_make_path(*row, only_type) for row in of_class) for name, of_class in rows.items()}


def compare_paths(name: str, a: Sequence[Path], b: Sequence[Path]) -> list[Difference]:
    """List shares and widths of a class in both: of the paths with most equal epochs, then of the nearest shares."""
    pairs = _pair_paths(a, b)
    rows = []
    for number, (left, right) in enumerate(pairs, start=1):
        prefix, place = "", f"classes.{name}.widths"
        if len(pairs) > 1:
            prefix, place = f"path {number}: ", f"classes.{name}.paths[{number}]"
            shares = [None if path is None else path.share for path in (left, right)]
            rows.append(Difference(name, f"{prefix}share of jobs", f"{place}.share", SHARE, *shares))
            place = f"{place}.widths"
        rows += _compare_epochs(name, prefix, place, left.held if left else (), right.held if right else ())
    return rows


def _make_path(share: float, gpus: list[float], gpu_types: tuple[str, ...] | None, only_type: str) -> Path:
    types = gpu_types if gpu_types is not None else (only_type,) * len(gpus)
    return Path(share, tuple(Held(float(count), gpu_type) for count, gpu_type in zip(gpus, types, strict=True)))


def _pair_paths(a: Sequence[Path], b: Sequence[Path]) -> list[tuple[Path | None, Path | None]]:
    """Pair the likest paths first; the pairs are in the order of A, then those of B alone."""

    def unlikeness(pair: tuple[int, int]) -> tuple[int, float, tuple[int, int]]:
        left, right = a[pair[0]], b[pair[1]]
        equal = sum(one == other for one, other in zip(left.held, right.held, strict=False))
        return -equal, abs(left.share - right.share), pair

    partner: dict[int, int] = {}
    for i, j in sorted(((i, j) for i in range(len(a)) for j in range(len(b))), key=unlikeness):
        if i not in partner and j not in partner.values():
            partner[i] = j
    pairs: list[tuple[Path | None, Path | None]] = [
        (path, b[partner[i]] if i in partner else None) for i, path in enumerate(a)
    ]
    return pairs + [(None, path) for j, path in enumerate(b) if j not in partner.values()]


def _compare_epochs(of: str, prefix: str, path: str, a: Sequence[Held], b: Sequence[Held]) -> Iterator[Difference]:
    """Yield one row for each run of epochs in which both answers keep their GPUs."""
    epochs = list(zip_longest(a, b))
    first = 1
    for (left, right), run in groupby(epochs):
        last = first + len(list(run)) - 1
        where = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        place = f"{path}[{first}]" if first == last else f"{path}[{first}..{last}]"
        yield _compare_held(of, prefix, "" if len(epochs) == last - first + 1 else f", {where}", place, left, right)
        first = last + 1


def _compare_held(of: str, prefix: str, where: str, path: str, left: Held | None, right: Held | None) -> Difference:
    types = {held.gpu_type for held in (left, right) if held is not None}
    if len(types) > 1:  # numbers of different GPUs are not subtracted
        words = [
            None if held is None else str(held) if held.gpu_type else count_gpus(held.gpus) for held in (left, right)
        ]
        return Difference(of, f"{prefix}GPUs{where}", path, "", *words, is_range=True)
    (gpu_type,) = types
    numbers = [None if held is None else held.gpus for held in (left, right)]
    name = f"{gpu_type} GPUs" if gpu_type else "GPUs"
    return Difference(of, f"{prefix}{name}{where}", path, GPUS, *numbers, is_range=True)
