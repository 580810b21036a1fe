"""The loops of branch and price: the same to the bit compiled and as Python, and against every path of small graphs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from optplan.contracts.judgement import PathCosts
from optplan.formulations.boa.judge import loops
from optplan.solvers.layered_graphs import path_totals
from optplan.solvers.paths import TUNING, branch_price, run_problem, runs, simplex
from optplan.solvers.paths.search import Effort

Maker = Callable[..., tuple[PathCosts, ...]]
Interpret = Callable[[ModuleType], Any]


def draw(seed: int) -> tuple[list[PathCosts], list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Return graphs of up to four layers and three kinds of two nodes, a limit for each kind; and the limits."""
    rng = np.random.default_rng(seed)
    kinds = int(rng.integers(2, 4))
    kind = np.repeat(np.arange(kinds), 2)
    by_kind, graphs = bool(rng.integers(2)), []
    for number in range(int(rng.integers(1, 4))):
        layers, groups = int(rng.integers(1, 5)), kinds if by_kind else 1
        consumption = np.zeros((1 + kinds, layers, kind.size))
        entering = np.zeros((1 + kinds, groups, kind.size))
        consumption[0], entering[0] = rng.uniform(0.1, 1.0, (layers, kind.size)), rng.uniform(0.0, 0.5, kind.size)
        for h in range(kinds):
            consumption[1 + h][:, kind == h] = rng.uniform(0.1, 1.0, (layers, 2))
            entering[1 + h][:, kind == h] = rng.uniform(0.0, 0.5, (groups, 2))
        graphs.append(
            PathCosts(
                name=str(number),
                labels=tuple(map(str, range(kind.size))),
                group=kind if by_kind else np.zeros_like(kind),
                limits=("all", *map(str, range(kinds))),
                run_value=rng.uniform(0.1, 1.0, (layers, kind.size)),
                run_consumption=consumption,
                enter_value=np.repeat(rng.uniform(0.0, 0.5, (groups, 1, kind.size)), layers, axis=1),
                enter_consumption=np.repeat(entering[:, :, None], layers, axis=2),
            )
        )
    limits = np.concatenate([[len(graphs) * 2.0], rng.uniform(0.5, 2.0, kinds)])
    return graphs, [kind] * len(graphs), [np.arange(1, 1 + kinds)] * len(graphs), limits


def every_path(costs: PathCosts) -> tuple[np.ndarray, np.ndarray]:
    """List the nodes (P, E) of every path, and value and consumptions (P, 1 + L)."""
    layers, nodes = costs.run_value.shape
    paths = np.array(list(itertools.product(range(nodes), repeat=layers)))
    totals = [path_totals(costs, path) for path in paths]
    return paths, np.array([[value, *used] for value, used in totals])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_best_paths_are_those_of_possible_runs(seed: int) -> None:
    """Over 60 draws of graphs and masks: no path that fits alone is missed, and none is worse than the best of all.

    A run is possible where some run of the same layers fits, so paths may be found that do not fit.
    """
    graphs, kinds, own, limits = draw(seed)
    problem = run_problem.state_runs(graphs, kinds, own, limits)
    assert problem is not None
    rng = np.random.default_rng(seed)
    closed = np.asarray(problem.graphs.closed)
    closed |= (rng.random(closed.shape) < 0.2).astype(np.uint8)
    weights = np.concatenate([[1.0], rng.uniform(0.0, 1.0, limits.size)])
    feasible = problem.graphs.refresh()
    forced = np.asarray(problem.graphs.forced)
    for g, costs in enumerate(graphs):
        paths, sums = every_path(costs)
        rows = closed[problem.starts[g] : problem.starts[g + 1]]
        is_open = ~rows[np.arange(paths.shape[1]), paths].astype(bool).any(axis=1)
        if not is_open.any():
            continue
        least_use = sums[is_open, 2:].min(axis=0)
        assert (forced[g] <= least_use + 1e-12).all()
        if costs.num_groups == 1:  # else coming to a node counts as if from the kind where that is least
            assert forced[g] == pytest.approx(least_use)
        if not feasible:
            continue
        left = limits[1:] - (forced.sum(axis=0) - forced[g])
        fits = (sums[:, 2:] <= left).all(axis=1)
        weighed = sums @ weights
        found = problem.graphs.price(g, weights)
        assert found >= weighed[is_open].min() - 1e-9
        if (is_open & fits).any():
            assert found <= weighed[is_open & fits].min() + 1e-9
            path = np.asarray(problem.graphs.path, dtype=np.int64)[g, : paths.shape[1]]
            value, used = path_totals(costs, path)
            assert np.asarray(problem.graphs.sums)[g] == pytest.approx(np.array([value, *used]))
            assert np.array([value, *used]) @ weights == pytest.approx(found)
            plan, sums = np.array(problem.graphs.path), np.array(problem.graphs.sums)
            assert problem.graphs.follow(g, plan)  # as if it had been priced
            assert np.asarray(problem.graphs.sums)[g] == pytest.approx(sums[g])
            closed[problem.starts[g], plan[g, 0]] = 1
            assert not problem.graphs.follow(g, plan)
            closed[problem.starts[g], plan[g, 0]] = 0


@pytest.mark.parametrize("interpreted", [False, True])
def test_runs_leave_room_for_layers_that_hold_the_kind_too(interpret: Interpret, interpreted: bool) -> None:
    """Of 2.5, layers 0 and 3 take 1 each on kind 1, so that no run may add layer 1 or 2, nor may the judge's.

    Kind 1 costs nothing and kind 0 costs 1 a layer: the best path is 1, 0, 0, 1 of value 2. Of runs alone, 1, 1, 0, 1
    of value 1 would be possible: they take 2 and 1.
    """
    steps = np.zeros((2, 4, 2))
    steps[0, :, 0] = 1.0
    steps[1, :, 1] = 1.0
    entries, begins, own = np.zeros((2, 1, 2)), np.array([0, 1, 2]), np.array([0, 1])
    used = np.array([[[0], [1]]], dtype=np.uint8)
    made = (interpret(runs) if interpreted else runs).RunGraphs(
        steps, entries[:, None], np.array([0, 4]), begins[None], own[None] - 1, used, np.array([2.5])
    )
    closed = np.asarray(made.closed)
    closed[[0, 3], 0] = 1
    assert made.refresh()
    weights = np.array([1.0, 0.0])
    assert made.price(0, weights) == 2.0
    assert np.asarray(made.path)[0].tolist() == [1, 0, 0, 1]
    judged = (interpret(loops) if interpreted else loops).ClassRuns(
        steps, entries, begins, own, np.ones((2, 2), dtype=np.uint8)
    )
    for epoch in (0, 3):
        judged.divide(epoch, 1, 2, True, 1)
    judged.bind(1, 2.5)
    assert judged.find_least(weights) == 2.0
    judged.bind(1, 3.0)
    assert judged.find_least(weights) == 1.0


@pytest.mark.parametrize("seed", range(40))
def test_searches_find_the_best_of_all_choices(seed: int) -> None:
    """Over 40 draws the optimum is the best of all choices of a path per graph within the limits, or there is none.

    No bound that is reported on the way is above it.
    """
    graphs, kinds, own, limits = draw(seed)
    problem = run_problem.state_runs(graphs, kinds, own, limits)
    assert problem is not None
    total = np.zeros((1, 1 + limits.size))
    for costs in graphs:
        total = (total[:, None] + every_path(costs)[1][None]).reshape(-1, total.shape[1])
        total = total[(total[:, 1:] <= limits * (1 + 1e-9)).all(axis=1)]
    seen: list[float] = []
    searched = branch_price.BranchAndPrice(
        problem, 1.0, 1e-6, Effort(), report=lambda search: seen.append(search.bound)
    )
    searched.run(100_000)
    best = total[:, 0].min(initial=np.inf)
    assert searched.value == pytest.approx(best, rel=1e-7)
    assert max(seen, default=0.0) <= best * (1 + 1e-9)
    assert searched.bound <= best * (1 + 1e-9)
    assert searched.bound >= best * (1 - 1e-6)


def test_searches_near_a_plan_find_the_best_that_shares_paths_with_it() -> None:
    """From the worst plan of three paths the first search frees two of them; in the end freeing any two is in vain."""
    seen = 0
    for seed in range(60):
        graphs, kinds, own, limits = draw(seed)
        problem = run_problem.state_runs(graphs, kinds, own, limits)
        assert problem is not None
        if len(graphs) < 3 or sum(len(costs.run_value) for costs in graphs) > 7:
            continue
        paths, sums = zip(*map(every_path, graphs), strict=True)
        totals = sums[0][:, None, None] + sums[1][None, :, None] + sums[2][None, None]
        values = np.where((totals[..., 1:] <= limits).all(axis=-1), totals[..., 0], np.inf)
        if not np.isfinite(values).any():
            continue
        worst = np.unravel_index(np.where(np.isfinite(values), values, -1.0).argmax(), values.shape)
        searched = branch_price.BranchAndPrice(problem, 1.0, 1e-6, Effort(), values[worst])
        plan = np.zeros((3, max(each.shape[1] for each in paths)), dtype=np.int32)
        for g, at in enumerate(worst):
            plan[g, : paths[g].shape[1]] = paths[g][at]
        searched._search_near(plan)
        assert searched.value == pytest.approx(values[:, :, worst[2]].min(), rel=1e-6)
        for _ in range(20):
            searched._search_near(plan if searched.plan is None else searched.plan)
        assert searched._near.take(searched.value) is None
        found = plan if searched.plan is None else searched.plan
        held = [int((paths[g] == found[g, : paths[g].shape[1]]).all(axis=1).argmax()) for g in range(3)]
        shared = min(values[:, :, held[2]].min(), values[:, held[1]].min(), values[held[0]].min())
        assert searched.value == pytest.approx(shared, rel=1e-6)
        seen += values[worst] > shared
    assert seen >= 5


def test_neighbourhoods_grow_once_all_were_cut_short() -> None:
    """Of 3 graphs each pair is free in turn; the two that were cut short come again for 40 parts, and 80, of 20.

    A better plan begins anew with all three; where none was cut short nothing is left.
    """
    near = run_problem.Neighbourhoods(3)
    begun = TUNING.parts_near
    assert [near.take(9.0) for _ in range(3)] == [(0, 1), (0, 2), (1, 2)]
    near.note_cut_short((0, 2))
    near.note_cut_short((1, 2))
    assert near.most_parts == begun
    assert [near.take(9.0), near.most_parts] == [(0, 2), 2 * begun]
    near.note_cut_short((0, 2))
    assert [near.take(9.0), near.take(9.0), near.most_parts] == [(1, 2), (0, 2), 4 * begun]
    assert near.take(9.0) is None
    assert [near.take(8.0), near.most_parts] == [(0, 1), begun]


def search(seed: int) -> list[float]:
    """Return everything that a search finds, and how long it takes."""
    graphs, kinds, own, limits = draw(seed)
    problem = run_problem.state_runs(graphs, kinds, own, limits)
    assert problem is not None
    found = branch_price.BranchAndPrice(problem, 1.0, 1e-6, Effort())
    found.run(100_000)
    master = found.master
    return [found.value, found.bound, found.branches, master.count, master.passes, master.pivots, *found.root.weights]


@pytest.mark.parametrize("seed", range(40))
def test_divisions_by_runs_find_the_best_of_all_choices(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whether numbers of runs are divided from the first part on or never, the optimum is the same, and is proven."""
    graphs, kinds, own, limits = draw(seed)
    found = []
    for parts in (0, 1_000_000):
        monkeypatch.setattr(branch_price, "TUNING", replace(TUNING, parts_by_masks=parts))
        problem = run_problem.state_runs(graphs, kinds, own, limits)
        assert problem is not None
        searched = branch_price.BranchAndPrice(problem, 1.0, 1e-6, Effort())
        searched.run(100_000)
        found.append(searched.value)
        assert searched.bound == searched.value or searched.bound >= searched.value * (1 - 1e-6)
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_a_mixture_is_divided_by_the_runs_it_leaves_between_two_numbers() -> None:
    """A half of a path with 2 runs on kind 0, half of one with 1: at most 1, or more. Kind 1 has 1 run in both.

    Once it has at most 1, that divides nothing; at most none closes the kind's nodes, and 2 at least are a bound.
    """
    graphs, kinds, own, limits = draw(0)
    problem = run_problem.state_runs(graphs, kinds, own, limits)
    assert problem is not None
    runs = np.zeros((2, problem.runs.shape[2]), dtype=np.int32)
    runs[:, 0], runs[:, 1] = [2, 1], 1
    owner, levels = np.zeros(2, dtype=int), np.array([0.5, 0.5])
    (split,) = problem.list_counts(owner, runs, levels)
    assert split == (0, -1, 0, 1)
    assert problem.divides(split)
    problem.cut(split, within=False)
    assert problem.runs[0, 0, 0] == 2
    assert not problem.divides(split)
    problem.cut((0, -1, 1, 0), within=True)
    rows = problem.mask[problem.starts[0] : problem.starts[1], problem.kinds[0, 1] : problem.kinds[0, 2]]
    assert rows.all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_compiled_and_interpreted_searches_agree_to_the_bit(
    interpret: Interpret, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Nothing is fused, reordered or rounded differently by the compiler."""
    compiled = search(seed)
    monkeypatch.setattr(run_problem, "RunGraphs", interpret(runs).RunGraphs)
    monkeypatch.setattr(branch_price, "RestrictedMaster", interpret(simplex).RestrictedMaster)
    assert search(seed) == compiled


@pytest.mark.parametrize("interpreted", [False, True])
def test_runs_are_charged_once_each(interpret: Interpret, interpreted: bool) -> None:
    """Being on kind 0 costs 1 a layer, on kind 1 nothing, and there is one path: 1, 0, 1, of value 1.

    It has one run on kind 0 and two on kind 1: charged 10 and 100 each, it weighs 211, to the judge, too. So it does
    where a run on kind 1 may not be longer than the limit of 1 allows, but then two.
    """
    steps = np.zeros((2, 3, 2))
    steps[0, :, 0] = 1.0
    steps[1, :, 1] = 1.0
    entries, begins, own = np.zeros((2, 1, 2)), np.array([0, 1, 2]), np.array([0, 1])
    used = np.array([[[0], [1]]], dtype=np.uint8)
    weights = np.array([1.0, 0.0, 10.0, 100.0])
    for limit in (9.0, 2.0):
        made = (interpret(runs) if interpreted else runs).RunGraphs(
            steps, entries[:, None], np.array([0, 3]), begins[None], own[None] - 1, used, np.array([limit])
        )
        closed = np.asarray(made.closed)
        closed[[0, 2], 0] = 1
        closed[1, 1] = 1
        assert made.refresh()
        assert made.price(0, weights) == 211.0
        assert np.asarray(made.runs).tolist() == [[1, 2]]
        assert made.fix_by_reduced_cost(0, weights, 211.0) == 0
        assert made.fix_by_reduced_cost(0, weights, 210.0) == 3
        judged = (interpret(loops) if interpreted else loops).ClassRuns(
            steps, entries, begins, own, np.ones((2, 2), dtype=np.uint8)
        )
        for epoch, option in ((0, 1), (1, 0), (2, 1)):
            judged.divide(epoch, option, option + 1, True, 1)
        judged.bind(1, limit)
        assert judged.find_least(weights) == 211.0
        assert not judged.close(weights, 211.5, 2)
        assert judged.close(weights, 210.0, 2)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("interpreted", [False, True])
def test_the_judge_finds_the_same_sums_with_charges(interpret: Interpret, interpreted: bool, seed: int) -> None:
    """Charges of either sign for each run: what the solver's path weighs, what the judge finds, what both close."""
    graphs, kinds, own, limits = draw(seed)
    problem = run_problem.state_runs(graphs, kinds, own, limits)
    assert problem is not None
    rng = np.random.default_rng(seed)
    charges = rng.normal(0.0, 1.0, problem.runs.shape[1:])
    weights = np.concatenate([[1.0], rng.uniform(0.0, 1.0, limits.size), charges.ravel()])
    if not problem.graphs.refresh():
        return
    forced = np.asarray(problem.graphs.forced)
    for g, costs in enumerate(graphs):
        least = problem.graphs.price(g, weights)
        steps = np.concatenate([costs.run_value[None], costs.run_consumption])
        entries = np.concatenate([costs.enter_value[None], costs.enter_consumption])[:, :, 0]
        own_numbers = own[g] + 1
        begins = np.searchsorted(kinds[g], np.arange(own_numbers.size + 1))
        judged = (interpret(loops) if interpreted else loops).ClassRuns(
            steps,
            np.ascontiguousarray(entries),
            begins,
            own_numbers,
            np.ones((own_numbers.size, 1 + limits.size), dtype=np.uint8),
        )
        for h in range(own_numbers.size):
            judged.bind(h, limits[1 + h] * (1 + 1e-9) - (forced[:, h].sum() - forced[g, h]))
        mine = np.concatenate([weights[: 1 + limits.size], charges[g, : own_numbers.size]])
        assert judged.find_least(mine) == pytest.approx(least)
        if not np.isfinite(least):
            continue
        sums, counts = np.asarray(problem.graphs.sums)[g], np.asarray(problem.graphs.runs)[g]
        assert sums @ weights[: 1 + limits.size] + counts @ charges[g] == pytest.approx(least)
        every = np.asarray(problem.graphs.path)[g, : len(costs.run_value)]
        kind = kinds[g][every]
        assert counts.sum() == 1 + np.count_nonzero(np.diff(kind))
        most = least + 0.2 * abs(least)
        problem.graphs.fix_by_reduced_cost(g, weights, most)
        judged.close(mine, most, 1)
        rows = slice(int(problem.starts[g]), int(problem.starts[g + 1]))
        assert ((np.asarray(judged.closed) > 0) == (np.asarray(problem.graphs.closed)[rows] > 0)).all()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("interpreted", [False, True])
def test_the_judge_finds_the_same_sums(interpret: Interpret, interpreted: bool, seed: int) -> None:
    """What a class cannot but take, its least sum and the options that are too heavy are as the solver has them."""
    graphs, kinds, own, limits = draw(seed)
    problem = run_problem.state_runs(graphs, kinds, own, limits)
    assert problem is not None
    weights = np.concatenate([[1.0], np.random.default_rng(seed).uniform(0.0, 1.0, limits.size)])
    if not problem.graphs.refresh():
        return
    forced = np.asarray(problem.graphs.forced)
    for g, costs in enumerate(graphs):
        steps = np.concatenate([costs.run_value[None], costs.run_consumption])
        entries = np.concatenate([costs.enter_value[None], costs.enter_consumption])[:, :, 0]
        own_numbers = own[g] + 1
        takes = np.ones((own_numbers.size, 1 + limits.size), dtype=np.uint8)
        begins = np.searchsorted(kinds[g], np.arange(own_numbers.size + 1))
        judged = (interpret(loops) if interpreted else loops).ClassRuns(
            steps, np.ascontiguousarray(entries), begins, own_numbers, takes
        )
        for h in range(own_numbers.size):
            assert judged.find_need(h) == pytest.approx(forced[g, h])
            left = limits[1 + h] * (1 + 1e-9) - (forced[:, h].sum() - forced[g, h])
            judged.bind(h, left)
        least = problem.graphs.price(g, weights)
        assert judged.find_least(weights) == pytest.approx(least)
        if not np.isfinite(least):
            continue
        most = least * 1.2
        problem.graphs.fix_by_reduced_cost(g, weights, most)
        judged.close(weights, most, 1)
        rows = slice(int(problem.starts[g]), int(problem.starts[g + 1]))
        assert ((np.asarray(judged.closed) > 0) == (np.asarray(problem.graphs.closed)[rows] > 0)).all()
