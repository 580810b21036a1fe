"""Srift: which VMs, how many, what batch on each, for one training job within a deadline or a budget."""

from functools import partial

from optplan.contracts.registry import Formulation, SolverEntry
from optplan.contracts.result import BoundProof

_PROBLEMS = frozenset({"cheapest", "fastest"})
_POLICIES = frozenset({"one-batch", "any-batches"})
_ALL = frozenset({"interruptions", "running"})
_HERE = "optplan.formulations.srift"

#: Solvers that differ in little.
_exact = partial(SolverEntry, problems=_PROBLEMS, policies=_POLICIES, features=_ALL)
_heuristic = partial(SolverEntry, problems=_PROBLEMS, policies=frozenset({"one-batch"}), exact=False, features=_ALL)

FORMULATION = Formulation(
    name="srift",
    title="Srift: the fleet of cloud VMs for one training job",
    reference="Luo, West, Krishnamurthy, Ceze: Srift (MLSys 2022)",
    instance_type=f"{_HERE}.data.instance:SriftInstance",
    solution_type=f"{_HERE}.data.instance:SriftSolution",
    plan_type=f"{_HERE}.planning:SriftPlan",
    evaluate=f"{_HERE}.judge.evaluation:evaluate",
    proofs=f"{_HERE}.judge.trees:list_proofs",
    check_tree=f"{_HERE}.judge.trees:check_tree",
    describe=f"{_HERE}.exact.reachability:describe",
    build_plan=f"{_HERE}.planning:build_plan",
    state_model=f"{_HERE}.models.statement:state_model",
    calibrate=f"{_HERE}.study.calibration:calibrate",
    build_pareto=f"{_HERE}.study.pareto:build_pareto",
    keeps_instance=True,  # a fleet that loses VMs is planned anew
    solvers=(
        _exact(
            "best-first",
            f"{_HERE}.exact.best_first:solve_best_first",
            "exact: best-first search of all fleets under bounds of time and cost, proven by a tree",
            proofs=frozenset({BoundProof.TREE, BoundProof.SEARCHED}),
        ),
        _exact(
            "highs",
            f"{_HERE}.models.general_engines:solve_highs",
            "HiGHS on fleets under a bound of their time, and the true time of those that it proposes",
            proofs=frozenset({BoundProof.ENGINE}),
            max_cells=2_000,
        ),
        _exact(
            "enumeration",
            f"{_HERE}.models.general_engines:solve_enumeration",
            "looks at every fleet; for tiny instances",
            proofs=frozenset({BoundProof.SEARCHED}),
            max_cells=40,
        ),
        _heuristic(
            "published-exhaustive",
            f"{_HERE}.published.planners:solve_exhaustive",
            "the paper's exhaustive search with its pruning rules (4.4), which may lose the optimum",
        ),
        _heuristic(
            "published-eager",
            f"{_HERE}.published.planners:solve_eager",
            "the paper's eager mode: type by type in steps of 8 VMs, within 50 ms unless told otherwise (4.4)",
        ),
        _heuristic(
            "published-cost-aware",
            f"{_HERE}.published.planners:solve_cost_aware",
            "CAP: fully loaded VMs, the cheapest types first (5.2)",
        ),
        _heuristic(
            "published-throughput-aware",
            f"{_HERE}.published.planners:solve_throughput_aware",
            "TAP: fully loaded VMs, the fastest types first (5.2)",
        ),
    ),
)
