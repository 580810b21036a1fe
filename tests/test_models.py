"""Models that users hold: stated by the sheet's names, changed, solved, judged; decisions from anywhere; graphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import optplan
from optplan.contracts import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import DataError, EngineError, InfeasibleError, UnsupportedError, UsageError
from optplan.formulations.boa.exact.layered_paths import solve_layered_paths
from optplan.formulations.rubberband.exact.both_limits import solve_held_paths
from optplan.instances.library import build_named
from optplan.solvers.programs import highs, statement
from tests.conftest import Later

if TYPE_CHECKING:
    import cvxpy as cp
    import networkx
    import pyomo.environ as pyo
else:
    cp, networkx, pyo = map(Later, ("cvxpy", "networkx", "pyomo.environ"))
from optplan.solvers.programs.program import ProgramOutcome
from optplan.solving import modelling


@pytest.fixture(autouse=True)
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optplan.errors.DataWarning)
        yield


def two_classes(**changes: Any) -> Any:  # noqa: ANN401 - a formulation's instance
    """Return the textbook problem of two classes, whose optimum has vision at 4, 4 and 8 GPUs."""
    return build_named("boa-two-classes").replace(**changes)


def solved(model: modelling.Model, *engine: str, **limits: float) -> Any:  # noqa: ANN401 - a result, whatever it has
    """Solve a model."""
    return model.solve(*engine, **limits)  # type: ignore[arg-type]


def best_of(instance: Any) -> float:  # noqa: ANN401 - a formulation's instance
    """Return the exact solver's optimum."""
    objective = optplan.solve(instance).objective
    assert objective is not None
    return float(objective)


@pytest.mark.parametrize(
    "name",
    ["boa-two-classes", "rubberband-two-stages", "seer-paper-example", "throughputs-resnet50-gavel", "srift-case2"],
)
def test_every_formulation_has_a_model_whose_optimum_is_that_of_the_exact_solver(name: str) -> None:
    """Solved as stated, the model finds the exact solver's optimum; of a relaxation the bound is no better."""
    instance = build_named(name)
    model = optplan.model(instance)
    result = solved(model)
    known = best_of(instance)
    assert result.objective == pytest.approx(known, rel=1e-6)
    assert result.solver == "model:highs"
    assert result.bound_proof is BoundProof.ENGINE
    assert result.own_constraints == ()
    assert result.status is (Status.FEASIBLE if name.startswith("srift") else Status.OPTIMAL)
    assert optplan.verify(instance, result).nothing_wrong
    assert not optplan.verify(instance, result).ok  # an engine's word is on trust
    assert ("a relaxation" in repr(model)) == bool(model.leaves_out)


def test_own_constraints_bind_and_are_named_in_the_result() -> None:
    """With vision on at most 4 GPUs in its last epoch the optimum is worse, and the bound says for which plans."""
    instance = two_classes()
    model = optplan.model(instance)
    m = model.native
    m.last_epoch = pyo.Constraint(expr=m.width["vision", 3] <= 4)
    result = solved(model)
    assert result.solution is not None
    assert result.solution.branches["vision"][0].widths[-1] <= 4
    assert result.own_constraints == ("last_epoch",)
    assert result.objective > best_of(instance)
    assert "last_epoch" in str(result)
    judged = optplan.verify(instance, result)
    assert any("user's own last_epoch" in claim for claim in judged.on_trust)
    assert optplan.build_plan(instance, result).segments
    assert type(result).parse(result.to_json_data()).own_constraints == ("last_epoch",)
    m.del_component("last_epoch")
    assert solved(model).objective == pytest.approx(best_of(instance))


def test_fixed_variables_and_tighter_bounds_are_own_constraints() -> None:
    """What is fixed or bounded restricts the plans as a constraint does, and is named."""
    model = optplan.model(two_classes())
    model.native.x["vision", 3, "v100", 8].fix(0)
    assert solved(model).own_constraints == ("x (fixed)",)
    model = optplan.model(two_classes())
    model.native.x["vision", 3, "v100", 8].setub(0)
    assert solved(model).own_constraints == ("x (bounds)",)


def test_changed_constraints_are_both_added_and_left_out() -> None:
    """Another budget in the model's own constraint is another problem: the judge holds decisions against the given."""
    model = optplan.model(two_classes())
    m = model.native
    m.budget.set_value(m.gpus["v100"] <= 20)
    result = solved(model)
    assert result.own_constraints == ("budget (changed)",)
    assert result.solution is None
    assert any("budget: " in warning for warning in result.warnings)


def test_relaxed_models_bound_and_claim_no_plan() -> None:
    """Without whole choices, or without the budget, what is found is a bound and no plan."""
    best = best_of(two_classes())
    relaxed = optplan.model(two_classes())
    for each in relaxed.native.x.values():
        each.domain = pyo.UnitInterval
    found = solved(relaxed)
    assert (found.status, found.solution) == (Status.UNKNOWN, None)
    assert found.bound < best
    assert any("not whole" in warning for warning in found.warnings)
    dropped = optplan.model(two_classes())
    dropped.native.budget.deactivate()
    found = solved(dropped)
    assert (found.status, found.solution) == (Status.UNKNOWN, None)
    assert found.bound < best
    assert any(warning == "left out or relaxed by its user: budget" for warning in found.warnings)
    assert any(warning.startswith("the decisions found do not hold: budget: ") for warning in found.warnings)


def test_own_objective_has_no_bound() -> None:
    """Of the plans that keep the budget, the one with fewest GPUs has an objective by the judge and no bound."""
    model = optplan.model(two_classes())
    m = model.native
    m.jct.deactivate()
    m.fewest = pyo.Objective(expr=m.gpus["v100"])
    result = solved(model)
    assert (result.status, result.bound, result.bound_proof) == (Status.FEASIBLE, None, BoundProof.NONE)
    assert any("its user's own, so that the problem's has no bound" in warning for warning in result.warnings)


def test_infeasible_says_whether_it_is_the_problem_or_what_was_added() -> None:
    """The problem's own infeasibility comes with the solver's proof, that of added constraints with least amounts."""
    too_poor = solved(optplan.model(two_classes(budget="1gpu")))
    assert too_poor.status is Status.INFEASIBLE
    assert too_poor.infeasibility is not None
    assert too_poor.infeasibility.relaxations[0].limit == "budget"
    assert not too_poor.rests_on_trust
    model = optplan.model(two_classes())
    m = model.native
    m.wide = pyo.Constraint(expr=m.width["vision", 3] >= 10)
    result = solved(model)
    assert result.infeasibility is not None
    assert result.infeasibility.reason == (
        "no plan of the problem keeps its user's own wide; the least change that would help: wide by 2"
    )
    assert result.rests_on_trust
    assert m.wide.active  # the model is as it was
    m.del_component("wide")
    m.nothing = pyo.Constraint(expr=0 * m.width["vision", 3] >= 1)
    assert "nothing" in str(solved(model).infeasibility)


def test_unbounded_models_and_lost_variables_are_refused() -> None:
    """An objective without end, and decisions that are nowhere to be read, are errors with a sentence."""
    model = optplan.model(two_classes())
    m = model.native
    m.free = pyo.Var()
    m.jct.deactivate()
    m.endless = pyo.Objective(expr=m.free)
    with pytest.raises(UsageError, match=r"^the model is unbounded: your own objective has no end; give bounds"):
        solved(model)
    lost = optplan.model(two_classes())
    lost.native.del_component("width")
    lost.native.del_component("x")
    with pytest.raises(UsageError, match=r"^the model has lost .*, from which decisions are read; give your own"):
        lost.solve()
    none = optplan.model(two_classes())
    none.native.jct.deactivate()
    with pytest.raises(UnsupportedError, match=r"^a model needs one active objective, and this one has none"):
        none.solve()


def test_other_engines_are_found_by_pyomo_or_refused() -> None:
    """Any engine of Pyomo's may do the work; nonlinear constraints need another one than HiGHS."""
    model = optplan.model(two_classes())
    result = solved(model, "appsi_highs", time_limit_s=60)
    assert result.solver == "model:appsi_highs"
    assert result.objective == pytest.approx(best_of(two_classes()))
    with pytest.raises(UnsupportedError, match=r"^engine: Pyomo finds no solver 'nosuch' here; install it"):
        solved(model, "nosuch")
    model.native.curved = pyo.Constraint(expr=model.native.width["vision", 3] ** 2 <= 20)
    with pytest.raises(UnsupportedError, match=r"^only linear models can be handed over as matrices: .*curved"):
        solved(model)


def test_engines_that_fail_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status without a meaning, or a plan that the solver knows and the engine does not, is the engine's failure."""
    monkeypatch.setattr(highs, "_ENDINGS", {})
    with pytest.raises(EngineError, match=r"^HiGHS ended with status kOptimal, which has no meaning"):
        optplan.model(two_classes()).solve()
    monkeypatch.setattr(statement, "_ENDINGS", {})
    with pytest.raises(EngineError, match=r"^appsi_highs, called by Pyomo, ended with optimal, which has no meaning"):
        optplan.model(two_classes()).solve("appsi_highs")
    monkeypatch.undo()
    nothing = ProgramOutcome(Status.INFEASIBLE, Termination.COMPLETED, engine="HiGHS")
    monkeypatch.setattr("optplan.solvers.programs.statement.run_engine", lambda *_, **__: nothing)
    with pytest.raises(EngineError, match=r"^highs finds no plan within the limits, although layered-paths does$"):
        optplan.model(two_classes()).solve()


@pytest.mark.slow
def test_srift_cuts_off_fleets_until_one_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With interruptions left out, fleets that are late in truth are cut off; without cuts there is only the bound."""
    instance = build_named("srift-spot-or-on-demand")
    model = optplan.model(instance)
    result = solved(model, time_limit_s=120)
    assert result.counters["cut_off"] > 0
    assert result.solution is not None
    assert result.bound <= best_of(instance) <= result.objective * (1 + 1e-9)
    assert model.native.component("cut_off") is None
    monkeypatch.setattr(modelling, "_MOST_CUTS", 0)
    found = solved(model)
    assert (found.status, found.solution) == (Status.UNKNOWN, None)
    assert any(warning.startswith("the decisions found do not hold: deadline") for warning in found.warnings)


def test_what_no_linear_model_states_is_refused_with_a_sentence() -> None:
    """Confidences, limits on GPUs at once, sampled objectives and real widths have no linear model."""
    refused = {
        "a confidence (0.9)": build_named("rubberband-resnet50-stragglers").replace(confidence=0.9),
        "the GPUs in use at once": two_classes(most_gpus={"gpus": 20}),
        "'quality' is sampled": build_named("seer-informed-example"),
        "stated in CVXPY": two_classes(problem="continuous"),
    }
    for words, instance in refused.items():
        with pytest.raises(UnsupportedError) as raised:
            optplan.model(instance)
        assert words in str(raised.value)
    with pytest.raises(UsageError, match=r"^engine: got 'gurobi'; pyomo and cvxpy are known$"):
        optplan.model(two_classes(), engine="gurobi")  # type: ignore[arg-type]
    with pytest.raises(InfeasibleError, match=r"^not even one trial of the shortest round fits"):
        optplan.model(build_named("seer-paper-example").replace(deadline_min=0.9))


def test_cvxpy_holds_mixed_plans_and_real_widths() -> None:
    """Convex problems have the same optimum in CVXPY, and take constraints of one's own."""
    mixed = two_classes(policy="mixed")
    model = optplan.model(mixed, engine="cvxpy")
    best = best_of(mixed)
    assert solved(model).objective == pytest.approx(best, rel=1e-6)
    assert solved(model, "highs").objective == pytest.approx(best, rel=1e-6)
    wide = [number for number, (_, _, _, k) in enumerate(model.index["x"]) if k == 8]
    few = cp.sum(model.native.var_dict["x"][wide]) <= 0.5
    model.native = cp.Problem(model.native.objective, [*model.native.constraints, few])
    result = solved(model)
    assert result.objective > best * 1.001
    assert len(result.own_constraints) == 1
    real = two_classes(problem="continuous")
    held = optplan.model(real, engine="cvxpy")
    assert solved(held).objective == pytest.approx(best_of(real), rel=1e-6)
    held.native = cp.Problem(held.native.objective, [*held.native.constraints, held.expressions["gpus"] <= 1e-3])
    assert solved(held).status is Status.INFEASIBLE
    with pytest.raises(UnsupportedError, match=r"^the problem is not convex: decisions are whole numbers"):
        optplan.model(two_classes(), engine="cvxpy")
    with pytest.raises(UnsupportedError, match=r"^engine: CVXPY finds no solver 'nosuch' here; it has "):
        optplan.model(mixed, engine="cvxpy").solve("nosuch")
    with pytest.raises(UnsupportedError, match=r"^a CVXPY problem is not written as lp"):
        held.write("lp")


def test_decisions_from_anywhere_are_judged() -> None:
    """Decisions become a result with the judge's figures, or are refused with the first rule that they break."""
    instance = two_classes()
    decisions = {"branches": {"vision": [{"widths": [4, 4, 8]}], "speech": [{"widths": [3, 3]}]}}
    result = optplan.result_of(instance, decisions)
    assert result.objective == pytest.approx(best_of(instance))
    assert (result.status, result.bound, result.solver) == (Status.FEASIBLE, None, "decisions:given")
    assert optplan.verify(instance, result).ok
    assert optplan.build_plan(instance, result).segments
    assert optplan.result_of(instance, result.solution or {}).objective == result.objective
    with pytest.raises(UsageError, match=r"^the decisions do not hold: budget: "):
        optplan.result_of(instance.replace(budget="4gpu"), decisions)
    with pytest.raises(DataError, match=r"^solution.branches"):
        optplan.result_of(instance, {"branches": 3})
    other = optplan.solve(build_named("seer-paper-example")).solution
    assert other is not None
    with pytest.raises(UsageError, match=r"^solution: got SeerSolution\(.*a BoaSolution is needed$"):
        optplan.result_of(instance, other)


def test_functions_are_solvers() -> None:
    """A function is asked as a registered solver is, named in the result, and its claims are judged."""
    instance = two_classes()
    result = optplan.solve(instance, solver=solve_layered_paths)
    assert result.solver == "function:solve_layered_paths"
    assert optplan.verify(instance, result).ok

    def guess(instance: optplan.BoaInstance, request: SolveRequest) -> Answer[optplan.BoaSolution]:
        del request
        widths = {name: [1.0] * each.num_epochs for name, each in instance.classes.items()}
        branches = {name: [{"widths": row}] for name, row in widths.items()}
        return Answer(Status.FEASIBLE, Termination.COMPLETED, optplan.BoaSolution.parse({"branches": branches}))

    guessed = optplan.solve(instance, solver=guess)
    assert (guessed.status, guessed.bound, guessed.solver) == (Status.FEASIBLE, None, "function:guess")
    with pytest.raises(optplan.errors.VerificationError, match=r"^budget: "):
        optplan.solve(instance.replace(budget="2gpu"), solver=guess)
    with pytest.raises(UsageError, match=r"^solver 'function:<lambda>' returned 3; an optplan.contracts.Answer"):
        optplan.solve(instance, solver=lambda *_: 3)  # type: ignore[arg-type]


def test_best_paths_of_the_graph_are_the_plans_of_least_time_and_least_use() -> None:
    """Shortest paths of networkx are what the solvers find where only one of the two counts."""
    instance = two_classes()
    graph = optplan.graph(instance)
    fastest = sum(
        networkx.shortest_path_length(graph, (name, "start"), (name, "end"), weight="value")
        for name in instance.classes
    )
    assert fastest == pytest.approx(optplan.solve(instance.replace(budget="1000gpu")).objective)
    least = sum(
        networkx.shortest_path_length(graph, (name, "start"), (name, "end"), weight="budget")
        for name in instance.classes
    )
    poor = optplan.solve(instance.replace(budget="1gpu"), solver="layered-paths")
    assert poor.infeasibility is not None
    assert least == pytest.approx(poor.infeasibility.relaxations[0].least_feasible)
    search = build_named("rubberband-two-stages").replace(deadline_s=1e6)
    graph = optplan.graph(search)
    cheapest = networkx.shortest_path_length(graph, ("1", "start"), ("1", "end"), weight="value")
    assert cheapest == pytest.approx(optplan.solve(search, solver=solve_held_paths).objective)
    assert {"instances": 1} in [data for _, data in graph.nodes(data=True)]


def test_graphs_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fleets are no paths, real widths no nodes, and a graph has to be drawn in memory."""
    with pytest.raises(UnsupportedError, match=r"^formulation 'srift' has no layered graph"):
        optplan.graph(build_named("srift-case1"))
    with pytest.raises(UnsupportedError, match=r"^the continuous problem has no layered graph"):
        optplan.graph(two_classes(problem="continuous"))
    monkeypatch.setattr("optplan.solvers.layered_graphs._MOST_ARCS", 10)
    with pytest.raises(UnsupportedError, match=r"^the graph would have 84 arcs, and 10 are drawn; take fewer classes"):
        optplan.graph(two_classes())
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)
    with pytest.raises(optplan.errors.MissingExtraError, match=r"^networkx is not installed"):
        optplan.graph(two_classes())


def test_models_are_written_for_other_programs() -> None:
    """Both formats have the names of the sheet, with underscores for what the formats do not allow."""
    model = optplan.model(two_classes())
    assert "x_vision_3_v100_8_" in model.write("lp")
    assert "row_length_vision_3_" in model.write("mps")
    # 84 nodes: each of 28 x and 16 z has a column
    assert model.write("mps").count("x_vision_1_v100_1_") > 1


def test_cp_sat_solves_models_with_bounds() -> None:
    """It finds what HiGHS finds; a model with a variable that has no bound above is refused by its name."""
    bounded = optplan.read_instance("seer-fcn-180min")
    by_highs, by_cp_sat = (optplan.model(bounded).solve(engine) for engine in ("", "cp-sat"))
    assert (by_cp_sat.objective, by_cp_sat.engine) == (by_highs.objective, "CP-SAT")
    with pytest.raises(UnsupportedError, match=r"CP-SAT needs a lower and an upper bound of every variable, and \w+"):
        optplan.model(optplan.read_instance("srift-case1")).solve("cp-sat")
