"""SEER: the best search for hyperparameters that a deadline and a budget can buy."""

from functools import partial

from optplan.contracts.registry import Formulation, SolverEntry
from optplan.contracts.result import BoundProof

_SPEND = frozenset({"spend"})
_INFORMED = frozenset({"informed"})
_HERE = "optplan.formulations.seer"

#: Whole nodes are paid, and trials do not divide them evenly.
_NODES = frozenset({"uneven-nodes"})
_solver = partial(SolverEntry, policies=frozenset({"brackets"}))

FORMULATION = Formulation(
    name="seer",
    title="SEER: sequential elimination with elastic resources, by a deadline and within a budget",
    reference="Dunlap, Kandasamy, Misra, Liaw, Jordan, Stoica, Gonzalez: Elastic Hyperparameter Tuning on the Cloud",
    instance_type=f"{_HERE}.data.instance:SeerInstance",
    solution_type=f"{_HERE}.data.instance:SeerSolution",
    plan_type=f"{_HERE}.planning:SeerPlan",
    evaluate=f"{_HERE}.judge.evaluation:evaluate",
    least_consumption=f"{_HERE}.judge.spending:least_consumption",
    proofs=f"{_HERE}.judge.spending:list_proofs",
    check_tree=f"{_HERE}.judge.spending:check_tree",
    describe=f"{_HERE}.exact.answers:describe",
    build_plan=f"{_HERE}.planning:build_plan",
    state_model=f"{_HERE}.models.statement:state_model",
    continue_plan=f"{_HERE}.study.continuation:continue_plan",
    retime=f"{_HERE}.planning:retime",
    calibrate=f"{_HERE}.study.continuation:calibrate",
    dual_bound=f"{_HERE}.judge.spending:dual_bound",
    build_pareto=f"{_HERE}.study.frontiers:build_pareto",
    solvers=(
        _solver(
            "spend-exact",
            f"{_HERE}.exact.spending:solve_spend_exact",
            "exact: undominated choices of trials, bracket by bracket; ties go to the last round",
            proofs=frozenset({BoundProof.LAGRANGIAN, BoundProof.TREE, BoundProof.SEARCHED}),
            features=_NODES,
            problems=_SPEND,
        ),
        _solver(
            "cp-sat",
            f"{_HERE}.models.statement:solve_cp_sat",
            "the same choices in CP-SAT, solved again for each tie",
            proofs=frozenset({BoundProof.ENGINE, BoundProof.LAGRANGIAN}),
            problems=_SPEND,
            needs="ortools",
            extra="cp-sat",
            max_cells=20_000,
        ),
        _solver(
            "enumeration",
            f"{_HERE}.models.statement:solve_enumeration",
            "looks at every choice; for tiny instances",
            proofs=frozenset({BoundProof.SEARCHED, BoundProof.LAGRANGIAN}),
            features=_NODES,
            problems=_SPEND,
            max_cells=60,
        ),
        _solver(
            "informed",
            f"{_HERE}.exact.informed:solve_informed",
            "chooses rounds and brackets on samples of a prior, and judges them on fresh ones; no bound",
            problems=_INFORMED,
            exact=False,
        ),
        _solver(
            "published-seer",
            f"{_HERE}.published.policy:solve_published",
            "the paper's own numbers of trials (Algorithms 1 to 3); the budget is its bound",
            proofs=frozenset({BoundProof.LAGRANGIAN}),
            features=_NODES,
            problems=_SPEND | _INFORMED,
            exact=False,
        ),
    ),
)
