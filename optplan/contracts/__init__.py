"""The frozen types that everything exchanges: instances, results, certificates, frontiers, plans, and their JSON."""

from optplan.contracts.frontier import Frontier, FrontierPoint
from optplan.contracts.instance import Instance, Solution
from optplan.contracts.judgement import Check, Evaluation, PathCosts, Verification
from optplan.contracts.plan import Action, Plan, PlanStep, Price
from optplan.contracts.result import (
    Answer,
    BoundProof,
    Certificate,
    ExhaustiveCertificate,
    Infeasibility,
    LagrangianCertificate,
    Relaxation,
    Result,
    ShadowPrice,
    SolveRequest,
    Status,
    Termination,
)

__all__ = [
    "Action",
    "Answer",
    "BoundProof",
    "Certificate",
    "Check",
    "Evaluation",
    "ExhaustiveCertificate",
    "Frontier",
    "FrontierPoint",
    "Infeasibility",
    "Instance",
    "LagrangianCertificate",
    "PathCosts",
    "Plan",
    "PlanStep",
    "Price",
    "Relaxation",
    "Result",
    "ShadowPrice",
    "Solution",
    "SolveRequest",
    "Status",
    "Termination",
    "Verification",
]
