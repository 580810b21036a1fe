"""The frozen types that everything exchanges: instances, results, certificates, frontiers, plans, and their JSON."""

from optplan.contracts.explanation import Alternative, Direction, ExplainedChoice, Explanation
from optplan.contracts.frontier import Frontier, FrontierPoint
from optplan.contracts.instance import Instance, Sense, Solution
from optplan.contracts.judgement import Check, Evaluation, PathCosts, Verification
from optplan.contracts.pareto import ParetoFrontier, ParetoPoint
from optplan.contracts.parts import Description
from optplan.contracts.plan import Action, Plan, PlanStep, Price
from optplan.contracts.result import (
    Answer,
    BoundProof,
    Certificate,
    EnumeratedCertificate,
    Hopeless,
    Infeasibility,
    LagrangianCertificate,
    Relaxation,
    Result,
    ShadowPrice,
    SolveEvent,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.contracts.sensitivity import SampledPlan, Sensitivity, SensitivityRequest

__all__ = [
    "Action",
    "Alternative",
    "Answer",
    "BoundProof",
    "Certificate",
    "Check",
    "Description",
    "Direction",
    "EnumeratedCertificate",
    "Evaluation",
    "ExplainedChoice",
    "Explanation",
    "Frontier",
    "FrontierPoint",
    "Hopeless",
    "Infeasibility",
    "Instance",
    "LagrangianCertificate",
    "ParetoFrontier",
    "ParetoPoint",
    "PathCosts",
    "Plan",
    "PlanStep",
    "Price",
    "Relaxation",
    "Result",
    "SampledPlan",
    "Sense",
    "Sensitivity",
    "SensitivityRequest",
    "ShadowPrice",
    "Solution",
    "SolveEvent",
    "SolveRequest",
    "Status",
    "Termination",
    "TreeCertificate",
    "Verification",
]
