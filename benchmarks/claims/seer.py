"""The claims of the paper on SEER."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from claims.record import Claim, Paper, Rows, Verdict, judge_all, judge_near, not_run
from claims.seer_choice import draw_charts, tell
from claims.seer_tables import (
    BLOCKS,
    FIXED,
    NAMES,
    PRINTED,
    SEARCHES,
    above,
    join,
    level,
    list_figure4_claims,
    list_table_claims,
    printed_of,
)

_PLANS = "The published plan, computed; without pauses, as the paper plans."
_CURVES = (
    "Two tables of perceptrons of the suites, and five small tasks, 288 configurations each in 2 runs of 128 "
    "epochs, trained by "
    "benchmarks/claims/train_curves.py with "
    "the paper's search spaces, momentum, weight decay and plateau schedule; the paper has large networks."
)
_NOTHING = "A statement of what was done or of what is possible; there is no figure to measure again."
_NEEDED = ("tasks", "scaling", "plans", "sweep", "no pauses", "winners", "figure 1", "theorem 2", "rivals")


def list_claims(rows: Rows) -> list[Claim]:
    """List the claims, each judged from the rows."""
    rows = join(rows)
    concepts = list(_list_concepts())
    if any(part not in rows for part in _NEEDED):
        lacking = next(part for part in _NEEDED if part not in rows)
        waiting = not_run("tables 2 to 4", "SEER is above its rivals", "", SEARCHES, f"The part {lacking} is missing.")
        return [waiting, *concepts]
    return [
        *_list_overall(rows),
        *_list_curves(rows),
        *_list_plans(rows),
        *_list_parameters(rows),
        *list_table_claims(rows),
        *_list_remarks(rows),
        *list_figure4_claims(rows),
        *_list_limits(rows),
        *concepts,
    ]


def _list_overall(rows: Rows) -> Iterator[Claim]:
    for where, says, rivals in (
        ("abstract", "SEER outperforms methods on a fixed cluster", ("random", *FIXED)),
        ("abstract", "SEER outperforms naive elastic extensions of them", ("e-hyperband", "e-grid")),
    ):
        told = [
            (block, rival, printed_of(rows, block.task, block.setting, rival)) for block in BLOCKS for rival in rivals
        ]
        known = [row for _, _, row in told if row is not None]
        better, worse = sum(above(row) for row in known), sum(row["gain"] < -2 * row["gain_error"] for row in known)
        here = f"{better} of {len(known)} pairs above, {worse} below, the others level"
        why = "Counted over Tables 2 to 4's five blocks, by two standard errors."
        total = len(BLOCKS) * len(rivals)
        verdict = Verdict.HOLDS if better == len(known) else Verdict.IN_PART if better > worse else Verdict.NOT
        yield Claim(where, says, f"{total} of {total} pairs of Tables 2 to 4", here, verdict, why, SEARCHES)


def _list_curves(rows: Rows) -> Iterator[Claim]:
    scaling = rows["scaling"]
    yield Claim(
        "figure 2", "A trial on more GPUs is less than as many times as fast", "(drawn)",
        f"{scaling['4']:.2f} times on 4 GPUs, {scaling['8']:.2f} on 8", judge_all([scaling["4"] < 4, scaling["8"] < 8]),
        "Below the line.",
        "HyperSched's measurements of ResNet18 on V100, not made here; the paper's are VGG16 and ResNet50.",
    )  # fmt: skip
    spreads = {name: told["quantiles"] for name, told in rows["tasks"].items()}
    apart = [quantiles[4] - quantiles[1] > 0.02 for quantiles in spreads.values()]
    here = "; ".join(f"{name} {quantiles[1]:.2f} to {quantiles[4]:.2f}" for name, quantiles in spreads.items())
    yield Claim(
        "figure 3", "Hyperparameters converge to different accuracies", "(drawn)", f"lower quartile to best: {here}",
        judge_all(apart), "More than 2 points apart in each.", _CURVES,
    )  # fmt: skip
    speeds = {name: told["epochs to 98 %, of the best quarter: least, most"] for name, told in rows["tasks"].items()}
    here = "; ".join(f"{name} {low} to {high}" for name, (low, high) in speeds.items())
    yield Claim(
        "figure 3", "Good configurations converge at different speeds", "(drawn)",
        f"epochs to 98 % of their best: {here}",
        judge_all([high >= 2 * low for low, high in speeds.values()]),
        "The slowest takes twice as long as the fastest or more.", _CURVES,
    )  # fmt: skip
    told = rows["figure 1"]
    here = "; ".join(f"{name} pays {row['paid']:.0f}, {row['held']:.0f} held" for name, row in told.items())
    near = [abs(row["paid"] - 80) <= 4 for row in told.values()]
    yield Claim(
        "figure 1", "All methods take the same GPU-minutes: 10 min, 80 GPU-minutes", "80", here, judge_all(near),
        "Within 5 % of 80.",
        "digits-cnn; a fixed cluster is paid until the deadline, busy or not; SEER's floors and pauses leave the rest.",
    )  # fmt: skip


def _list_plans(rows: Rows) -> Iterator[Claim]:
    example = rows["plans"]["example"]
    narrow = example["ratio"] * example["rounds"]
    for says, paper, here in (
        ("T = 10, B = 80, eta = 2: R* in units of t_min", 5.714, example["ratio"]),
        ("the same: rounds", 3, example["rounds"]),
        ("the same: minutes of the first round", 1.42, example["round_min"]),
        ("the same: B0, GPU-minutes of the narrowest bracket", 17.142, narrow),
        ("the same: q*, brackets of equal budgets", 2, example["levels"]),
        ("the same: trials", 12, example["trials"]),
        ("the same: trials on 1 GPU", 8, example["brackets"][0][1]),
        ("the same: trials on 2 GPUs", 4, example["brackets"][1][1]),
        ("the same: minutes when the last round ends", 9.94, example["minutes"]),
    ):
        yield Claim("3.4", says, f"{paper:g}", f"{here:.4g}", judge_near(here, paper, 0.01), "Within 1 %.", _PLANS)
    one, two = rows["plans"]["8x30"]["1"]["trials"], rows["plans"]["8x30"]["2"]["trials"]
    yield Claim(
        "6.5", "SEER evaluates 13 trials at 8x30", "13", f"{two} with t_min = 2, {one} with the default of 1",
        Verdict.HOLDS if two == 13 and one == 13 else Verdict.IN_PART if 13 in (one, two) else Verdict.NOT,
        "It is the plan for t_min = 2 min.", _PLANS,
    )  # fmt: skip
    small, later = rows["plans"]["small"]
    wanted = int(small["budget"] / (small["rounds"] * small["round_min"]))
    yield Claim(
        "3.3",
        "With a small budget there is one bracket on p_min GPUs of B / (K t1 p_min) trials, over before the deadline",
        "1 bracket",
        f"{len(small['brackets'])} bracket of {small['trials']} trials (formula: {wanted}), over after "
        f"{small['minutes']:.1f} of 600 min",
        judge_all([len(small["brackets"]) == 1, small["trials"] == wanted, small["minutes"] < 600]), "As said.",
        "100 GPU-minutes, deadline 600 min; " + _PLANS,
    )  # fmt: skip
    yield Claim(
        "3.3", "Then a longer deadline changes nothing", "the same plan",
        f"60 and 600 min: {later['trials']} and {small['trials']} trials",
        judge_all([small == later]), "The plans are equal.", "100 GPU-minutes; " + _PLANS,
    )  # fmt: skip
    spent = [
        row["spent"] / (rows["plans"][setting]["1"]["budget"])
        for task in rows["sweep"].values() for setting, swept in task.items() for row in swept.values()
    ]  # fmt: skip
    yield Claim(
        "fact 1", "SEER takes at most T and B", "1", f"{max(spent):.3f} of the budget at most, {len(spent)} rows",
        judge_all([max(spent) <= 1.0]), "The clock ends every search at the deadline.", SEARCHES,
    )  # fmt: skip
    held = [one["corrected"] <= 1 for task in rows["theorem 2"].values() for one in task.values() if "corrected" in one]
    terms = [one["corrected"] for task in rows["theorem 2"].values() for one in task.values() if "corrected" in one]
    yield Claim(
        "theorem 2", "Where its condition holds, the loss is bounded", "condition at most 1",
        f"holds in {sum(held)} of {len(held)} settings; the least sum is {min(terms):.0f}", Verdict.UNSAID,
        "Where the condition does not hold the theorem promises nothing.",
        "Corrected as docs/seer.md says, delta = 0.1, each task's own curves as gamma and F.",
    )  # fmt: skip


def _ranges(rows: Rows, part: str, marks: tuple[str, ...]) -> list[float]:
    """Return by how many points the accuracy differs between shortest rounds, by task and setting."""
    told = []
    for task in rows[part].values():
        for swept in task.values():
            known = [swept[mark]["accuracy"] for mark in marks if mark in swept]
            told.append(100 * (max(known) - min(known)))
    return sorted(told)


def _list_parameters(rows: Rows) -> Iterator[Claim]:
    for says, marks, paper in (
        ("t_min slightly more or less has minimal effects: 1 against 2 epochs", ("1", "2"), "minimal"),
        ("the same: 2 against 4 epochs", ("2", "4"), "minimal"),
        ("the same, far off: 0.5 to 8 epochs", ("0.5", "1", "2", "4", "8"), ""),
    ):
        told = _ranges(rows, "sweep", marks)
        small = sum(each <= 0.5 for each in told)
        share = small / len(told)
        verdict = Verdict.HOLDS if share >= 0.9 else Verdict.IN_PART if share >= 0.5 else Verdict.NOT
        here = (
            f"within half a point in {small} of {len(told)}; {told[-1]:.1f} points at most, median "
            f"{told[len(told) // 2]:.2f}"
        )
        yield Claim("3.2", says, paper, here, verdict, "It holds where nine of ten are within half a point.", SEARCHES)
    costs = []
    for task in rows["sweep"].values():
        for swept in task.values():
            best = max(row["accuracy"] for row in swept.values())
            costs.append(100 * (best - max(swept[mark]["accuracy"] for mark in ("1", "2") if mark in swept)))
    good = sum(each <= 0.5 for each in costs)
    yield Claim(
        "3.2", "t_min should be one to two epochs", "1 to 2 epochs",
        f"the better of the two is within half a point of the best of five in {good} of {len(costs)}; "
        f"{max(costs):.1f} points at most",
        Verdict.HOLDS if good >= 0.9 * len(costs) else Verdict.IN_PART if good >= 0.5 * len(costs) else Verdict.NOT,
        "It holds where nine of ten are within half a point.", SEARCHES,
    )  # fmt: skip
    early = [
        swept["0.5"]["accuracy"] < swept["1"]["accuracy"]
        for task in rows["sweep"].values()
        for swept in task.values()
        if {"0.5", "1"} <= set(swept)
    ]
    yield Claim(
        "5", "Rounds that are too short for an epoch need a longer t_min", "",
        f"half an epoch is worse than one in {sum(early)} of {len(early)}",
        Verdict.HOLDS if sum(early) > 0.5 * len(early) else Verdict.IN_PART, "Counted.", SEARCHES,
    )  # fmt: skip
    yield from _list_winners(rows)


def _list_winners(rows: Rows) -> Iterator[Claim]:
    told = [one for task in rows["winners"].values() for one in task.values()]
    low = [one["won"]["1"] for one in told]
    share = sum(low) / len(low)
    expected = sum(one["started"]["1"] / sum(one["started"].values()) for one in told) / len(told)
    yield Claim(
        "3.1", "The winner began as often in a low bracket as in a high one", "equally likely",
        f"{100 * share:.0f} % began on 1 GPU, where {100 * expected:.0f} % of the trials begin",
        judge_near(share, 0.5, 0.2), "Within a fifth of one half it holds.",
        "Means over five tasks and the settings; " + SEARCHES,
    )  # fmt: skip
    moved = [one["moved"] for one in told]
    winners = sum(one["of winners"] for one in moved) / len(moved)
    trials = sum(one["of those that go on"] for one in moved) / len(moved)
    yield Claim(
        "3.1", "Better trials move to brackets with more GPUs", "",
        f"{100 * trials:.0f} % of the trials that go on change their GPUs, {100 * winners:.0f} % of the winners",
        judge_all([trials > 0, winners > 0]), "They do.", "Means over five tasks and the settings; " + SEARCHES,
    )  # fmt: skip


def _list_remarks(rows: Rows) -> Iterator[Claim]:
    wins, cases = [], 0
    for block in BLOCKS:
        told = {name: printed_of(rows, block.task, block.setting, name) for name in ("e-grid", *FIXED)}
        grid, others = told["e-grid"], [told[name] for name in FIXED if told[name] is not None]
        if grid is not None:
            cases += 1
            wins.append(all(grid["accuracy"] > other["accuracy"] for other in others if other is not None))
    yield Claim(
        "6.4", "E-Grid Search often outperforms ASHA, HyperSched and BOHB", "2 of 5 blocks, and level in a third",
        f"above all three in {sum(wins)} of {cases}",
        Verdict.HOLDS if sum(wins) >= 2 else Verdict.IN_PART if any(wins) else Verdict.NOT,
        "As often as in the paper, or more, it holds.", SEARCHES,
    )  # fmt: skip
    late = {block.task: printed_of(rows, block.task, block.setting, "asha") for block in BLOCKS}
    shares = {task: row["late"] for task, row in late.items() if row is not None}
    here = "; ".join(f"{task} {100 * share:.0f} %" for task, share in shares.items())
    yield Claim(
        "6.4", "ASHA explores even close to the deadline", "",
        f"of the last fifth's GPU-minutes, trials begun in it hold: {here}",
        judge_all([share > 0.2 for share in shares.values()]),
        "More than a fifth is a lot.", SEARCHES,
    )  # fmt: skip
    for rival, says in (("asha", "ASHA performs poorly"), ("e-hyperband", "E-Hyperband is worse than SEER")):
        every = [printed_of(rows, block.task, block.setting, rival) for block in BLOCKS]
        known = [row for row in every if row is not None]
        count = sum(above(row) for row in known)
        paper = sum(block.seer > block.rivals[rival][0] for block in BLOCKS)
        yield Claim(
            "6.4" if rival == "asha" else "3.5", says, f"below SEER in {paper} of 5",
            f"below in {count} of {len(known)}",
            Verdict.HOLDS if count == len(known) else Verdict.IN_PART if count else Verdict.NOT,
            "By two standard errors.", SEARCHES,
        )  # fmt: skip
    gains = [printed_of(rows, block.task, block.setting, "random") for block in BLOCKS]
    least = min(row["gain"] for row in gains if row is not None)
    papers = min(block.seer - block.rivals["random"][0] for block in BLOCKS)
    yield Claim(
        "6.3", "A random configuration shows that tuning is necessary", f"SEER gains {papers:.3f} at least",
        f"SEER gains {least:.3f} at least", judge_all([least > 0.02]), "More than 2 points everywhere.", SEARCHES,
    )  # fmt: skip


def _count(rows: Rows, setting: str, rival: str) -> tuple[int, int, int]:
    """Return in how many tasks SEER is above, level and below a rival as printed."""
    told = [printed_of(rows, task, setting, rival) for task in rows["rivals"]]
    known = [row for row in told if row is not None]
    higher, same = sum(above(row) for row in known), sum(level(row) for row in known)
    return higher, same, len(known) - higher - same


def _list_limits(rows: Rows) -> Iterator[Claim]:
    for says, setting, rival in (
        ("With a very large deadline (240 min) ASHA outperforms SEER", "16x240", "asha"),
        ("With a small budget (8x30) HyperSched matches or outperforms SEER", "8x30", "hypersched"),
        ("With a small budget (4x15) HyperSched matches or outperforms SEER", "4x15", "hypersched"),
    ):
        higher, same, lower = _count(rows, setting, rival)
        total, strict = higher + same + lower, rival == "asha"
        reached = lower if strict else lower + same
        verdict = Verdict.HOLDS if reached > total / 2 else Verdict.IN_PART if reached else Verdict.NOT
        here = f"{NAMES[rival]} above in {lower}, level in {same}, below in {higher} of {total} tasks"
        yield Claim("7", says, "", here, verdict, "It holds where it is so in most tasks.", SEARCHES)
    drops = {}
    for setting in ("16x15", "16x60"):
        pairs = [
            (rows["no pauses"][task][setting][PRINTED]["accuracy"], row[setting][PRINTED]["accuracy"])
            for task, row in rows["sweep"].items()
        ]
        drops[setting] = 100 * sum(free - paused for free, paused in pairs) / len(pairs)
    yield Claim(
        "7", "Pauses for resizing hurt SEER with deadlines of 10 to 15 minutes", "",
        f"{drops['16x15']:.2f} points at 16x15, {drops['16x60']:.2f} at 16x60, mean over the tasks",
        Verdict.HOLDS if drops["16x15"] > 0.5 else Verdict.IN_PART if drops["16x15"] > 0.05 else Verdict.NOT,
        "Half a point or more would be poor.", "With pauses of 15 s and without; " + SEARCHES,
    )  # fmt: skip


_CONCEPTS: Mapping[str, tuple[str, ...]] = {
    "1": ("Exploring many configurations scales perfectly, one configuration poorly",),
    "table 1": ("Search space of 9 rates, 4 decays and 4 momenta, changed for segmentation and text",),
    "6.1": ("p3.8xlarge nodes of 4 V100, batches of 2,048, runs without failures",),
    "6.3": ("E-Grid: half of the deadline for exploring on p_min GPUs, half for the best on p_max = 4",),
    "5": ("RubberBand's executor runs SEER's skewed stages; rounds end by the clock",),
}


def _list_concepts() -> Iterator[Claim]:
    for where, texts in _CONCEPTS.items():
        for text in texts:
            yield Claim(where, text, "", "", Verdict.NOTHING, _NOTHING, "None.")


PAPER = Paper(
    "seer",
    "SEER",
    "claims-seer.md",
    "Dunlap, Kandasamy, Misra, Liaw, Jordan, Stoica and Gonzalez, *Elastic Hyperparameter Tuning on the Cloud* (SoCC "
    "2021): [how it is planned here](seer.md). **What ran on a virtual clock is no training of the paper's networks**: "
    "curves of five small tasks stand in for them, so what can be judged is which search comes out above which, not "
    "the "
    "accuracies themselves.",
    list_claims,
    draw_charts,
    tell,
)
