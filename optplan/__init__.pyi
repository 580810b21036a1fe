"""The public names of optplan, each written once: type checkers read them here, and ``optplan`` where they are."""

# ruff: noqa: I001 - would import every name by a statement of its own

from optplan.cli.console import (
    Progress as Progress,
)
from optplan.contracts import (
    Explanation as Explanation,
    Frontier as Frontier,
    Infeasibility as Infeasibility,
    Instance as Instance,
    ParetoFrontier as ParetoFrontier,
    Plan as Plan,
    Result as Result,
    Sensitivity as Sensitivity,
    Solution as Solution,
    Status as Status,
    Termination as Termination,
    Verification as Verification,
)
from optplan.contracts.configurations import (
    Configuration as Configuration,
)
from optplan.errors import (
    OptplanError as OptplanError,
)
from optplan.formulations.boa.data.gpu_types import (
    GpuType as GpuType,
)
from optplan.formulations.boa.data.instance import (
    BoaInstance as BoaInstance,
    BoaSolution as BoaSolution,
)
from optplan.formulations.boa.data.job_classes import (
    JobClass as JobClass,
    Widths as Widths,
)
from optplan.formulations.boa.planning import (
    BoaPlan as BoaPlan,
)
from optplan.formulations.rubberband.data.cloud import (
    Cloud as Cloud,
)
from optplan.formulations.rubberband.data.experiment import (
    HyperbandExperiment as HyperbandExperiment,
    ShaExperiment as ShaExperiment,
    StagesExperiment as StagesExperiment,
)
from optplan.formulations.rubberband.data.instance import (
    RubberBandInstance as RubberBandInstance,
    RubberBandSolution as RubberBandSolution,
)
from optplan.formulations.rubberband.data.training import (
    TrainingProfile as TrainingProfile,
)
from optplan.formulations.rubberband.laws.sampling import (
    sample_plan as sample_plan,
)
from optplan.formulations.rubberband.planning import (
    RubberBandPlan as RubberBandPlan,
)
from optplan.formulations.seer.data.instance import (
    SeerInstance as SeerInstance,
    SeerSolution as SeerSolution,
)
from optplan.formulations.seer.data.search_space import (
    Choices as Choices,
    Interval as Interval,
)
from optplan.formulations.seer.planning import (
    SeerPlan as SeerPlan,
)
from optplan.formulations.seer.published.policy import (
    TrialRequest as TrialRequest,
    start_policy as start_policy,
)
from optplan.formulations.srift.data.instance import (
    Interruptions as Interruptions,
    SriftInstance as SriftInstance,
    SriftSolution as SriftSolution,
    VmType as VmType,
)
from optplan.formulations.srift.data.profiles import (
    JobProfile as JobProfile,
)
from optplan.formulations.srift.planning import (
    SriftPlan as SriftPlan,
)
from optplan.formulations.srift.study.replanning import (
    FleetStanding as FleetStanding,
    continue_run as continue_run,
)
from optplan.instances.files import (
    read_instance as read_instance,
    read_plan as read_plan,
    read_result as read_result,
    write_json as write_json,
)
from optplan.instances.generators import (
    random_boa as random_boa,
    random_srift as random_srift,
)
from optplan.instances.job_traces import (
    JobTrace as JobTrace,
    draw_trace as draw_trace,
    read_trace as read_trace,
)
from optplan.instances.model_cards import (
    card as card,
)
from optplan.instances.plain_data import (
    read_data as read_data,
)
from optplan.progress import (
    interruptible as interruptible,
)
from optplan.reporting.comparison import (
    compare as compare,
)
from optplan.reporting.reports import (
    draw_frontier as draw_frontier,
    draw_plan as draw_plan,
)
from optplan.reporting.pages import (
    write_page as write_page,
)
from optplan.reporting.reports import (
    write_report as write_report,
)
from optplan.solving import (
    analyse_sensitivity as analyse_sensitivity,
    build_plan as build_plan,
    explain as explain,
    frontier as frontier,
    graph as graph,
    model as model,
    pareto as pareto,
    result_of as result_of,
    solve as solve,
)
from optplan.speedup import (
    AmdahlSpeedup as AmdahlSpeedup,
    GoodputSpeedup as GoodputSpeedup,
    PowerSpeedup as PowerSpeedup,
    TableSpeedup as TableSpeedup,
    fit_best as fit_best,
    fit_table as fit_table,
)
from optplan.speedup.cards.records import (
    ModelCard as ModelCard,
)
from optplan.verification import (
    evaluate as evaluate,
    verify as verify,
)

__version__: str
__all__: list[str]
