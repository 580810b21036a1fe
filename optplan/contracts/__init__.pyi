"""The names of ``optplan.contracts``, each written once: type checkers read them here, the package where they are."""

from optplan.contracts.conditions import Elapsed, Started
from optplan.contracts.explanation import (
    Alternative,
    Direction,
    ExplainedChoice,
    Explanation,
    SampledPlan,
    Sensitivity,
    SensitivityRequest,
)
from optplan.contracts.frontier import Frontier, FrontierPoint, ParetoFrontier, ParetoPoint
from optplan.contracts.instance import Instance, Sense, Solution
from optplan.contracts.judgement import Check, Evaluation, PathCosts, Verification
from optplan.contracts.parts import Description
from optplan.contracts.plan import Binding, Expected, Limit, Plan, Segment, Semantics, Unit, UnitKind
from optplan.contracts.registry import Formulation, SolverEntry
from optplan.contracts.resources import Billing, Resource
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

__all__ = [
    "Alternative",
    "Answer",
    "Billing",
    "Binding",
    "BoundProof",
    "Certificate",
    "Check",
    "Description",
    "Direction",
    "Elapsed",
    "EnumeratedCertificate",
    "Evaluation",
    "Expected",
    "ExplainedChoice",
    "Explanation",
    "Formulation",
    "Frontier",
    "FrontierPoint",
    "Hopeless",
    "Infeasibility",
    "Instance",
    "LagrangianCertificate",
    "Limit",
    "ParetoFrontier",
    "ParetoPoint",
    "PathCosts",
    "Plan",
    "Relaxation",
    "Resource",
    "Result",
    "SampledPlan",
    "Segment",
    "Semantics",
    "Sense",
    "Sensitivity",
    "SensitivityRequest",
    "ShadowPrice",
    "Solution",
    "SolveEvent",
    "SolveRequest",
    "SolverEntry",
    "Started",
    "Status",
    "Termination",
    "TreeCertificate",
    "Unit",
    "UnitKind",
    "Verification",
]
