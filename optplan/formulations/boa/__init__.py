"""BOA Constrictor: how many GPUs each class of training jobs gets, epoch by epoch, within a time-average budget."""

from functools import partial

from optplan.contracts.registry import PROVEN, Formulation, SolverEntry
from optplan.contracts.result import BoundProof

_WHOLE = frozenset({"whole", "rescaling"})
_EVERY = _WHOLE | {"continuous"}
_BOTH = frozenset({"pure", "mixed"})
_PURE = frozenset({"pure"})
_TYPES = frozenset({"gpu-types", "whole-nodes"})
_ALL = frozenset({"gpu-types", "quotas", "due-dates", "floors", "type-changes", "whole-nodes"})
_HERE = "optplan.formulations.boa"

#: Solvers that differ in little.
_exact = partial(SolverEntry, proofs=PROVEN, problems=_EVERY, policies=_BOTH, prices=True)
_general = partial(
    SolverEntry,
    proofs=frozenset({BoundProof.ENGINE, BoundProof.LAGRANGIAN}),
    problems=_WHOLE,
    policies=_BOTH,
    features=_ALL,
)
_heuristic = partial(SolverEntry, problems=frozenset({"rescaling"}), policies=_PURE, exact=False)

FORMULATION = Formulation(
    name="boa",
    title="BOA Constrictor: budget-optimal allocation of GPUs to streams of training jobs",
    reference="Li, Zhu, Mukhopadhyay, Harchol-Balter, Berg: BOA Constrictor",
    instance_type=f"{_HERE}.data.instance:BoaInstance",
    solution_type=f"{_HERE}.data.instance:BoaSolution",
    plan_type=f"{_HERE}.planning:BoaPlan",
    evaluate=f"{_HERE}.judge.evaluation:evaluate",
    find_range=f"{_HERE}.study.ranges:find_range",
    judge_truth=f"{_HERE}.judge.evaluation:judge_truth",
    derive_range=f"{_HERE}.study.ranges:derive_range",
    share_evidence=f"{_HERE}.judge.evaluation:share_evidence",
    dual_bound=f"{_HERE}.judge.duality:dual_bound",
    path_costs=f"{_HERE}.judge.duality:path_costs",
    least_consumption=f"{_HERE}.judge.duality:least_consumption",
    forecast_demand=f"{_HERE}.exact.peak.demand:forecast_demand",
    judge_demand=f"{_HERE}.judge.following:judge_demand",
    proofs=f"{_HERE}.judge.duality:list_proofs",
    check_tree=f"{_HERE}.judge.trees:check_tree",
    describe=f"{_HERE}.exact.costs:describe",
    build_plan=f"{_HERE}.planning:build_plan",
    state_model=f"{_HERE}.models.statement:state_model",
    state_convex_model=f"{_HERE}.models.conic:state_convex_model",
    draw_graph=f"{_HERE}.models.statement:draw_graph",
    build_frontier=f"{_HERE}.study.frontiers:build_frontier",
    explain=f"{_HERE}.study.explaining:explain",
    analyse_sensitivity=f"{_HERE}.study.sensitivity:analyse_sensitivity",
    estimate_errors=f"{_HERE}.study.sensitivity:EstimateErrors",
    sensitivity_type=f"{_HERE}.study.sensitivity:BoaSensitivity",
    solvers=(
        _exact(
            "layered-paths",
            f"{_HERE}.exact.layered_paths:solve_layered_paths",
            "exact: shortest paths under a multiplier, then labels within the remaining gap",
            features=_TYPES,
        ),
        _exact(
            "linked-paths",
            f"{_HERE}.exact.linked_limits:solve_linked_paths",
            "exact with quotas, due dates, floors, type changes: a multiplier for each, then labels within the gap",
            features=_ALL,
        ),
        SolverEntry(
            name="capped-paths",
            target=f"{_HERE}.exact.peak.capped:solve_capped_paths",
            summary="a limit on the GPUs at once: the best plan found, and a bound on all plans",
            proofs=frozenset({BoundProof.LAGRANGIAN, BoundProof.ENUMERATED, BoundProof.TREE, BoundProof.SEARCHED}),
            problems=_WHOLE,
            policies=_BOTH,
            exact=False,
            features=_ALL | {"most-gpus"},
            supports=f"{_HERE}.exact.peak.capped:refuse_uncapped",
        ),
        SolverEntry(
            name="committed-paths",
            target=f"{_HERE}.exact.committed:solve_committed_paths",
            summary="committed GPUs: the best plan found with the number to commit, and a bound on all plans",
            proofs=PROVEN | {BoundProof.SEARCHED},
            problems=_WHOLE,
            policies=_BOTH,
            exact=False,
            features=_ALL | {"commitments"},
            supports=f"{_HERE}.exact.committed:refuse_uncommitted",
        ),
        SolverEntry(
            name="conic",
            target=f"{_HERE}.models.conic:solve_conic",
            summary="real widths, closed forms included: Theorem B.1 as a disciplined convex program in CVXPY",
            proofs=frozenset({BoundProof.LAGRANGIAN}),
            problems=frozenset({"continuous"}),
            policies=frozenset({"mixed"}),
            features=frozenset({"gpu-types", "quotas", "real-widths"}),
            needs="cvxpy",
            extra="conic",
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
            policies=_PURE,
            needs="ortools",
            extra="cp-sat",
            max_cells=20_000,
        ),
        _general(
            "enumeration",
            f"{_HERE}.models.general_engines:solve_enumeration",
            "looks at every plan; for tiny instances",
            proofs=frozenset({BoundProof.SEARCHED}),
            policies=_PURE,
            max_cells=60,
        ),
        _heuristic(
            "published-algorithm1",
            f"{_HERE}.published.algorithm1:solve_algorithm1",
            "the paper's width calculator (Algorithm 1) as printed, with a fast inner solver",
        ),
        _heuristic(
            "fixed-width",
            f"{_HERE}.exact.layered_paths:solve_fixed_width",
            "the best single width per class for the whole job",
            problems=_WHOLE,
            features=_TYPES,
        ),
    ),
)
