"""Srift: which VMs, how many, what batch on each, for one training job within a deadline or a budget."""

from optplan.contracts.registry import Formulation, SolverEntry
from optplan.contracts.result import BoundProof

_PROBLEMS = frozenset({"cheapest", "fastest"})
_POLICIES = frozenset({"one-batch", "any-batches"})
_ONE_BATCH = frozenset({"one-batch"})
_ALL = frozenset({"interruptions", "running"})
_HERE = "optplan.formulations.srift"

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
    describe=f"{_HERE}.exact.description:describe",
    build_plan=f"{_HERE}.planning:build_plan",
    calibrate=f"{_HERE}.study.calibration:calibrate",
    build_pareto=f"{_HERE}.study.pareto:build_pareto",
    solvers=(
        SolverEntry(
            name="best-first",
            target=f"{_HERE}.exact.best_first:solve_best_first",
            summary="exact: best-first search of all fleets under bounds of time and cost, proven by a tree",
            proofs=frozenset({BoundProof.TREE, BoundProof.SEARCHED}),
            problems=_PROBLEMS,
            policies=_POLICIES,
            features=_ALL,
        ),
        SolverEntry(
            name="cp-sat",
            target=f"{_HERE}.models.general_engines:solve_cp_sat",
            summary="CP-SAT on fleets under a bound of their time, and the true time of those that it proposes",
            proofs=frozenset({BoundProof.ENGINE}),
            problems=_PROBLEMS,
            policies=_POLICIES,
            needs="ortools",
            max_cells=2_000,
            features=_ALL,
        ),
        SolverEntry(
            name="enumeration",
            target=f"{_HERE}.models.general_engines:solve_enumeration",
            summary="looks at every fleet; for tiny instances",
            proofs=frozenset({BoundProof.SEARCHED}),
            problems=_PROBLEMS,
            policies=_POLICIES,
            max_cells=40,
            features=_ALL,
        ),
        SolverEntry(
            name="published-exhaustive",
            target=f"{_HERE}.published.planners:solve_exhaustive",
            summary="the paper's exhaustive search with its pruning rules (4.4), which may lose the optimum",
            proofs=frozenset(),
            problems=_PROBLEMS,
            policies=_ONE_BATCH,
            exact=False,
            features=_ALL,
        ),
        SolverEntry(
            name="published-eager",
            target=f"{_HERE}.published.planners:solve_eager",
            summary="the paper's eager mode: type by type in steps of 8 VMs, within 50 ms unless told otherwise (4.4)",
            proofs=frozenset(),
            problems=_PROBLEMS,
            policies=_ONE_BATCH,
            exact=False,
            features=_ALL,
        ),
        SolverEntry(
            name="published-cost-aware",
            target=f"{_HERE}.published.planners:solve_cost_aware",
            summary="CAP: fully loaded VMs, the cheapest types first (5.2)",
            proofs=frozenset(),
            problems=_PROBLEMS,
            policies=_ONE_BATCH,
            exact=False,
            features=_ALL,
        ),
        SolverEntry(
            name="published-throughput-aware",
            target=f"{_HERE}.published.planners:solve_throughput_aware",
            summary="TAP: fully loaded VMs, the fastest types first (5.2)",
            proofs=frozenset(),
            problems=_PROBLEMS,
            policies=_ONE_BATCH,
            exact=False,
            features=_ALL,
        ),
        SolverEntry(
            name="bayesian",
            target=f"{_HERE}.published.bayesian:solve_bayesian",
            summary="black-box Bayesian optimisation of counts and batches (4.4)",
            proofs=frozenset(),
            problems=_PROBLEMS,
            policies=_ONE_BATCH,
            exact=False,
            needs="bayes_opt",
            features=_ALL,
        ),
    ),
)
