"""RubberBand: the cheapest elastic cluster for an early-stopping search, stage by stage, within a deadline."""

from functools import partial

from optplan.contracts.registry import PROVEN, Formulation, SolverEntry
from optplan.contracts.result import BoundProof

_PLAIN = frozenset({"cheapest", "fastest"})
_CONFIDENT = frozenset({"cheapest-with-confidence", "fastest-with-confidence"})
_MODES = frozenset({"any", "fair"})
_ALL = frozenset({"side-by-side", "per-function"})
_HERE = "optplan.formulations.rubberband"

#: Solvers that differ in little.
_exact = partial(SolverEntry, proofs=PROVEN, policies=_MODES, features=_ALL, prices=True)
_general = partial(
    SolverEntry, proofs=frozenset({BoundProof.ENGINE}), problems=_PLAIN, policies=_MODES, max_cells=2_000, features=_ALL
)
_heuristic = partial(SolverEntry, policies=_MODES, exact=False, features=_ALL)

FORMULATION = Formulation(
    name="rubberband",
    title="RubberBand: elastic clusters for early-stopping hyperparameter searches",
    reference="Misra, Liaw, Dunlap, Bhardwaj, Kandasamy, Gonzalez, Stoica, Tumanov: RubberBand (EuroSys 2021)",
    instance_type=f"{_HERE}.data.instance:RubberBandInstance",
    solution_type=f"{_HERE}.data.instance:RubberBandSolution",
    plan_type=f"{_HERE}.planning:RubberBandPlan",
    evaluate=f"{_HERE}.judge.evaluation:evaluate",
    share_evidence=f"{_HERE}.judge.evaluation:share_evidence",
    proofs=f"{_HERE}.judge.duality:list_proofs",
    check_tree=f"{_HERE}.judge.duality:check_tree",
    describe=f"{_HERE}.exact.costs:describe",
    build_plan=f"{_HERE}.planning:build_plan",
    state_model=f"{_HERE}.models.statement:state_model",
    draw_graph=f"{_HERE}.exact.chains:draw_graph",
    continue_plan=f"{_HERE}.study.continuation:continue_plan",
    retime=f"{_HERE}.planning:retime",
    calibrate=f"{_HERE}.study.calibration:calibrate",
    dual_bound=f"{_HERE}.judge.duality:dual_bound",
    least_within=f"{_HERE}.judge.duality:least_within",
    least_consumption=f"{_HERE}.judge.duality:least_consumption",
    build_pareto=f"{_HERE}.study.pareto:build_pareto",
    solvers=(
        _exact(
            "held-paths",
            f"{_HERE}.exact.both_limits:solve_held_paths",
            "exact: paths over the instances held, a multiplier, then labels within the remaining gap",
            problems=_PLAIN,
        ),
        SolverEntry(
            "bisection",
            f"{_HERE}.exact.confidence:solve_with_confidence",
            "with a confidence: bisection among the plans that are best for the means, judged by distribution",
            proofs=PROVEN,
            problems=_CONFIDENT,
            policies=_MODES,
            exact=False,
            features=_ALL,
        ),
        _general(
            "highs",
            f"{_HERE}.models.general_engines:solve_highs",
            "the declarative mixed-integer model, handed to HiGHS",
            needs="highspy",
        ),
        _general(
            "cp-sat",
            f"{_HERE}.models.general_engines:solve_cp_sat",
            "CP-SAT on costs rounded to integers; the bound is widened by the rounding error",
            needs="ortools",
            extra="cp-sat",
        ),
        _general(
            "enumeration",
            f"{_HERE}.models.general_engines:solve_enumeration",
            "looks at every plan; for tiny instances",
            proofs=frozenset({BoundProof.ENUMERATED}),
            max_cells=12,
        ),
        _heuristic(
            "static",
            f"{_HERE}.published.planners:solve_static",
            "the best cluster of constant size (section 3.2)",
            problems=_PLAIN,
        ),
        _heuristic(
            "naive-elastic",
            f"{_HERE}.published.planners:solve_naive_elastic",
            "the best plan with the same GPUs for each trial in all stages (6.3.1)",
            problems=_PLAIN,
        ),
        _heuristic(
            "published-greedy",
            f"{_HERE}.published.planners:solve_greedy",
            "Algorithm 2 as printed, driven by the sampled simulator",
            problems=frozenset({"cheapest"}),
        ),
        _heuristic(
            "published-greedy-exact",
            f"{_HERE}.published.planners:solve_greedy_exact",
            "the same, driven by exact expectations",
            problems=frozenset({"cheapest"}),
        ),
        _heuristic(
            "published-greedy-instances",
            f"{_HERE}.published.planners:solve_greedy_instances",
            "the same with steps that free at least one instance: the fair rival",
            problems=frozenset({"cheapest"}),
        ),
        _heuristic(
            "published-greedy-skipping",
            f"{_HERE}.published.planners:solve_greedy_skipping",
            "the same, passing over candidates that break the deadline, where the printed algorithm ends",
            problems=frozenset({"cheapest"}),
        ),
    ),
)
