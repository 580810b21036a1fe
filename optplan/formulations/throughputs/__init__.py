"""Throughputs: which VMs, how many and in which configuration, for one job whose speeds were measured."""

from optplan.contracts.proofs import BoundProof
from optplan.contracts.registry import Formulation, SolverEntry

_HERE = "optplan.formulations.throughputs"

FORMULATION = Formulation(
    name="throughputs",
    title="Throughputs: VMs for one training job of which speeds were measured",
    reference="optplan's own: docs/throughputs.md",
    instance_type=f"{_HERE}.data:ThroughputsInstance",
    solution_type=f"{_HERE}.data:ThroughputsSolution",
    plan_type=f"{_HERE}.planning:ThroughputsPlan",
    evaluate=f"{_HERE}.judge:evaluate",
    proofs=f"{_HERE}.judge:list_proofs",
    check_tree=f"{_HERE}.judge:check_tree",
    describe=f"{_HERE}.exact:describe",
    build_plan=f"{_HERE}.planning:build_plan",
    state_model=f"{_HERE}.models:state_model",
    build_pareto=f"{_HERE}.study:build_pareto",
    solvers=(
        SolverEntry(
            "choices",
            f"{_HERE}.exact:solve_choices",
            "exact: looks at every type, number and configuration, and so does its proof",
            problems=frozenset({"cheapest", "fastest"}),
            policies=frozenset({"one-type"}),
            proofs=frozenset({BoundProof.TREE, BoundProof.SEARCHED}),
        ),
    ),
)
