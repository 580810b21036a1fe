"""The claims of the paper on Srift: its cases, its search and what it says of spot VMs."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median
from typing import Any

from claims.record import Claim, Paper, Rows, Verdict, judge_all, judge_at_least, judge_near, not_run
from claims.srift_accuracy_claims import draw_charts, list_accuracy_claims, tell
from claims.srift_study import list_study_claims
from optplan.units import SECONDS_PER_HOUR

CALIBRATED = (
    "Profiles that are calibrated to the paper's choices and predictions, as it prints none, with spot prices of its "
    "table 4: "
    "that its choices are optimal and its factors follow from one model can be judged, that the model is right cannot"
)
DRAWN = (
    "40 offers of 3 types with up to 16 VMs of each, drawn with seeds 0 to 39 (`random_srift`), a global batch of "
    "1,024, no limits; "
    "optimal fleets against CAP and TAP, where these have a fleet. The paper has three cases, to whose figures the "
    "library's profiles are calibrated"
)
ARITHMETIC = "Arithmetic on the paper's own figures"
CLOUD = "Real runs on EC2, which this project cannot make"
MODEL = "What the paper describes, beside what this project does"
SOLVED = f"Processor time of one solve with its proof, the least of three, on a busy machine of two cores. {CALIBRATED}"
RULES = (
    "Inception and VGG19 as in cases 1 and 2, on 12 or 8 VMs of a type, least time, with the rule and without. "
    + CALIBRATED
)
VIRTUAL = f"The monitor on its virtual clock, where nothing is trained. {CALIBRATED}"
#: Case, words of the fleet, unit of the figure, the paper's prediction and what it measured.
_FIGURES = (
    ("srift-case1", "Srift", "s an iteration", 0.914, 0.876),
    ("srift-case1", "CAP and TAP", "s an iteration", 1.776, 1.774),
    ("srift-case2", "Srift and TAP", "cents an iteration", 0.321, 0.332),
    ("srift-case2", "CAP", "cents an iteration", 0.393, 0.396),
    ("srift-case3", "Srift", "s", 378.0, 381.0),
    ("srift-case3", "CAP", "s", 751.0, 761.0),
    ("srift-case3", "TAP", "s", 742.0, 759.0),
    ("srift-interruption", "Srift", "s", 152.0, None),
    ("srift-interruption-replan", "Srift", "s", 100.0, None),
)
_ITERATIONS = {"srift-case3": 1000, "srift-interruption": 400, "srift-interruption-replan": 200}
_NAMES = {
    "srift-case1": "case 1",
    "srift-case2": "case 2",
    "srift-case3": "case 3",
    "srift-interruption": "the first fleet",
    "srift-interruption-replan": "the second fleet",
}
#: The paper's choices.
_CHOICES = {
    "srift-case1": [["g4dn.8xlarge", 16, 64]],
    "srift-case2": [["g4dn.8xlarge", 8, 128]],
    "srift-case3": [["p3.8xlarge", 4, 1024], ["g3.8xlarge", 8, 128], ["g4dn.8xlarge", 8, 128]],
    "srift-interruption": [["p3.8xlarge", 2, 512]],
    "srift-interruption-replan": [["p3.8xlarge", 1, 512], ["g3.8xlarge", 8, 64]],
}
#: Seconds in which the paper's search answers.
_ANSWERED = {"srift-case1": 0.67, "srift-case2": 1.6, "srift-case3": 0.76}
#: What is said, the predicted and the real factor, and the figures that are divided, predicted and real.
_FACTORS = (
    ("case 1: faster than CAP and TAP by", (1.94, 2.03), ((0.914, 1.776), (0.876, 1.774))),
    ("case 2: cheaper than CAP by", (1.22, 1.19), ((0.321, 0.393), (0.332, 0.396))),
    ("case 3: faster than CAP by", (1.99, 2.00), ((378.0, 751.0), (381.0, 761.0))),
    ("case 3: cheaper than CAP by", (1.42, 1.43), ((2.72, 3.88), (2.74, 3.93))),
    ("case 3: faster than TAP by", (1.96, 1.99), ((378.0, 742.0), (381.0, 759.0))),
    ("case 3: cheaper than TAP by", (1.55, 1.57), ((2.72, 4.22), (2.74, 4.31))),
)
#: Case 3's fleets at table 4's prices: dollars an hour, seconds and dollars as predicted, and as they were.
_COSTS = {
    "Srift": (4 * 3.68 + 8 * 0.69 + 8 * 0.72, 378.0, 2.72, 381.0, 2.74),
    "CAP": (2 * 3.68 + 8 * 0.69 + 8 * 0.72, 751.0, 3.88, 761.0, 3.93),
    "TAP": (4 * 3.68 + 8 * 0.72, 742.0, 4.22, 759.0, 4.31),
}
_ERRORS = (4.3, 0.1, 0.1, 3.3, 0.7, 3.3, 0.8, 1.3, 2.2)
_NEAR, _CLOSE = 0.02, 0.05


def list_claims(rows: Rows) -> list[Claim]:
    """List the claims, each judged from the rows."""
    own = (_on_headline, _on_choices, _on_predictions, _on_factors, _on_search, _on_rules, _on_interruption)
    claims = [claim for part in own for claim in part(rows)]
    return [*claims, *list_study_claims(rows), *list_accuracy_claims(rows)]


def _fleet(rows: Rows, case: str, words: str) -> dict[str, float]:
    found: dict[str, float] = rows["cases"][case]["fleets"][words]
    return found


def _on_headline(rows: Rows) -> Iterator[Claim]:
    for objective, says, paper in (
        ("time", "the fleets it finds have a higher throughput than the baselines', by up to", 2.0),
        ("cost", "and cost less an iteration, by up to", 1.6),
    ):
        if "drawn offers" not in rows:
            yield not_run("abstract, 5.2", says, f"{paper:g} times", DRAWN)
            continue
        all_found = rows["drawn offers"][objective]
        found = {name: [one for one in factors if one is not None] for name, factors in all_found.items()}
        pairs = zip(*all_found.values(), strict=True)
        both = [min(one for one in pair if one is not None) for pair in pairs if any(one is not None for one in pair)]
        largest = max(max(factors) for factors in found.values())
        middle = {name.removeprefix("published-"): median(factors) for name, factors in found.items()}
        here = f"{largest:.2f} times at most; " + ", ".join(
            f"{name} {one:.2f} in the median" for name, one in middle.items()
        )
        why = (
            f"Against the better of the two baselines {median(both):.2f} times in the median; drawn offers are wilder "
            "than real ones."
        )
        if objective == "cost":
            why += " The paper's conclusion says 1.5 where its abstract says 1.6."
        yield Claim("abstract, 5.2", says, f"{paper:g} times", here, judge_at_least(largest, paper), why, DRAWN)
    why = "The three cases' nine errors, averaged; one case counts CAP and TAP, which choose the same fleet, twice."
    verdict = judge_near(fmean(_ERRORS), 1.8, _CLOSE)
    says = "predictions in the three cases are off by, on average"
    yield Claim("5.2", says, "1.8 %", f"{fmean(_ERRORS):.2f} %", verdict, why, ARITHMETIC)


def _on_choices(rows: Rows) -> Iterator[Claim]:
    for case, choice in _CHOICES.items():
        says = f"{_NAMES[case]}: the best fleet is this one"
        paper = _say_fleet(choice)
        if "cases" not in rows:
            yield not_run("5.2" if "case" in case else "5.4", says, paper, CALIBRATED)
            continue
        found = rows["cases"][case]
        why = f"The optimum, with a certificate ({found['proof']}) that `verify` checks."
        if case == "srift-case1":
            why += " The paper's labels halve the batches: 16 VMs of 32 samples have 512, not 1,024."
        here, verdict = _say_fleet(found["optimum"]), judge_all([found["optimum"] == choice])
        if "case" not in case:
            verdict = Verdict.UNSAID
            why += (
                " It is the optimum only where the T4 is slower than the M60, which the calibration was made to have."
            )
        yield Claim("5.2" if "case" in case else "5.4", says, paper, here, verdict, why, CALIBRATED)


def _say_fleet(groups: list[Any]) -> str:
    return " + ".join(f"{count:g} {name}@{batch:g}" for name, count, batch in groups)


def _on_predictions(rows: Rows) -> Iterator[Claim]:
    for case, words, unit, predicted, measured in _FIGURES:
        where = "5.2" if "case" in case else "5.4"
        says = f"{_NAMES[case]}, {words}: predicted, in {unit}"
        if "cases" not in rows:
            yield not_run(where, says, f"{predicted:g}", CALIBRATED)
            continue
        fleet, times = _fleet(rows, case, words), _ITERATIONS.get(case, 1)
        by_time = unit.startswith("s")
        here = fleet["iteration_s"] * times if by_time else 100.0 * fleet["usd_per_iteration"]
        why = f"The calibration rests on it, and is {100 * (here / predicted - 1):+.1f} % off"
        why += f"; there {100 * (predicted / measured - 1):+.1f} % off what was measured." if measured else "."
        yield Claim(where, says, f"{predicted:g}", f"{here:.4g}", Verdict.UNSAID, why, CALIBRATED)
    for words, (dollars_an_hour, predicted_s, predicted_usd, real_s, real_usd) in _COSTS.items():
        here, real = (dollars_an_hour * seconds / SECONDS_PER_HOUR for seconds in (predicted_s, real_s))
        says = f"case 3, {words}: dollars, predicted and real"
        verdict = judge_all([abs(here / predicted_usd - 1) <= _NEAR, abs(real / real_usd - 1) <= _NEAR])
        why = f"The seconds that it prints, {predicted_s:g} and {real_s:g}, at ${dollars_an_hour:.2f} an hour."
        yield Claim(
            "5.2", says, f"{predicted_usd:g}, {real_usd:g}", f"{here:.2f}, {real:.2f}", verdict, why, ARITHMETIC
        )
    why = "The 17 figures of real fleets in 5.2 and 5.4 were measured on EC2."
    yield Claim("5.2, 5.4", "what real fleets took and cost", "17 figures", "", Verdict.UNSAID, why, CLOUD)


def _on_factors(_: Rows) -> Iterator[Claim]:
    for words, said, pairs in _FACTORS:
        ratios = [worse / better for better, worse in pairs]
        near = [abs(one / wanted - 1) <= _NEAR for one, wanted in zip(ratios, said, strict=True)]
        paper, found = (", ".join(f"{one:.2f}" for one in each) for each in (said, ratios))
        why = "The figures that it prints, divided."
        yield Claim(
            "5.2", f"{words}, predicted and real", f"{paper} times", f"{found} times", judge_all(near), why, ARITHMETIC
        )
    costs = [figure for name, figure in _COSTS.items() if name != "Srift"]
    says = "in case 3 neither CAP nor TAP keeps 10 minutes and 3 dollars"
    broken = [seconds > 600 and usd > 3 for _, *figures in costs for seconds, usd in (figures[:2], figures[2:])]
    here = f"{sum(broken)} of {len(broken)} fleets, predicted and real, break both"
    yield Claim(
        "5.2", says, "751 s, $3.88; 742 s, $4.22", here, judge_all(broken), "The figures that it prints.", ARITHMETIC
    )


def _on_search(rows: Rows) -> Iterator[Claim]:
    for case, seconds in _ANSWERED.items():
        says = f"{_NAMES[case]} is answered within"
        if "cases" not in rows:
            yield not_run("5.2", says, f"{seconds:g} s", SOLVED)
            continue
        taken_s = rows["cases"][case]["seconds"]
        why = "Another machine and another program: only the order can be compared; here with a proof of optimality."
        verdict = Verdict.HOLDS if taken_s <= seconds else Verdict.NOT
        yield Claim("5.2", says, f"{seconds:g} s", f"{1000 * taken_s:.0f} ms", verdict, why, SOLVED)
    says = "the exhaustive search with its rules, and the eager mode, find the best fleet"
    if "cases" in rows:
        reached = {}
        for rival in ("published-exhaustive", "published-eager"):
            found = [one["rivals"][rival] for one in rows["cases"].values()]
            best = [one["objective"] for one in rows["cases"].values()]
            reached[rival] = [a is not None and a <= b * (1 + 1e-6) for a, b in zip(found, best, strict=True)]
        here = ", ".join(
            f"{name.removeprefix('published-')} in {sum(one)} of {len(one)}" for name, one in reached.items()
        )
        verdict = judge_all([each for one in reached.values() for each in one])
        yield Claim("4.4", says, "", here, verdict, "Beside the proven optimum, in the paper's own cases.", CALIBRATED)
    else:
        yield not_run("4.4", says, "", CALIBRATED)
    why = "The paper prints no figure for this."
    yield Claim("4.4", "the eager mode takes more types in steps of", "8 VMs", "", Verdict.NOTHING, why, MODEL)


def _on_rules(rows: Rows) -> Iterator[Claim]:
    if "rules of 4.4" not in rows:
        yield not_run("4.4", "pruning rules do not lose the optimum", "", RULES)
        return
    for rule, (with_rule, without) in rows["rules of 4.4"].items():
        here = f"{with_rule:.2f} s an iteration with it, {without:.2f} s without"
        verdict = Verdict.HOLDS if with_rule <= without * (1 + 1e-6) else Verdict.NOT
        why = "One instance where it does is enough."
        yield Claim("4.4", f"this rule does not lose the optimum: {rule}", "", here, verdict, why, RULES)


def _on_interruption(rows: Rows) -> Iterator[Claim]:
    parts = (222, 4, 150, 100)
    says = "the second fleet is projected to end after 222 + 4 + 150 + 100 s, that is at"
    verdict = judge_near(sum(parts), 479, 0.001)
    yield Claim("5.4", says, "479 s", f"{sum(parts)} s", verdict, "The paper's own terms, added.", ARITHMETIC)
    left = 500 - 222 - 4 - 150
    says = "what is left for the rest after the interruption is"
    yield Claim("5.4", says, "124 s", f"{left} s", judge_near(left, 124, 0.001), "500 - 222 - 4 - 150.", ARITHMETIC)
    says = "so that the first fleet ends, with 150 s for its launch, at"
    if "cases" in rows:
        here = 150 + 400 * _fleet(rows, "srift-interruption", "Srift")["iteration_s"]
        why = "150 s for launching and the predicted iterations."
        yield Claim("5.4", says, "302 s", f"{here:.0f} s", judge_near(here, 302, _NEAR), why, VIRTUAL)
    else:
        yield not_run("5.4", says, "302 s", VIRTUAL)
    says = "and it really ended at"
    why = "The VMs booted in 138 s and 95 s there, which no plan can know."
    yield Claim("5.4", says, "419 s", "", Verdict.UNSAID, why, CLOUD)
    why = "It is an input here, too (`--detach`, `--launch`)."
    yield Claim("5.4", "launching takes 150 s and freeing a disk 5 s", "150 s, 5 s", "", Verdict.NOTHING, why, MODEL)


INTRO = """
*Srift: Swift and Thrift Cloud-Based Distributed Training* (MLSys 2022); what it plans is [here](srift.md). A figure is
near the paper's within 2 %, and in part within 4 %; a factor is reached from 95 % of the paper's on.
"""
PAPER = Paper("srift", "Srift", "claims-srift.md", INTRO, list_claims, draw_charts, tell)
