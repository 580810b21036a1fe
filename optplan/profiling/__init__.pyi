"""The public names of profilers and probers, each written once, as those of ``optplan`` are."""

from optplan.profiling.allreduce_data import (
    AllreduceData as AllreduceData,
)
from optplan.profiling.allreduce_data import (
    Place as Place,
)
from optplan.profiling.allreduce_data import (
    format_csv as format_csv,
)
from optplan.profiling.allreduce_data import (
    read_measurements as read_measurements,
)
from optplan.profiling.allreduce_prober import (
    ProbeSettings as ProbeSettings,
)
from optplan.profiling.allreduce_prober import (
    describe_place as describe_place,
)
from optplan.profiling.allreduce_prober import (
    probe as probe,
)
from optplan.profiling.bandwidth_training import (
    fill_bandwidth as fill_bandwidth,
)
from optplan.profiling.bandwidth_training import (
    learn_bandwidth as learn_bandwidth,
)
from optplan.profiling.bandwidth_training import (
    tabulate as tabulate,
)
from optplan.profiling.critical_batch import (
    CriticalBatch as CriticalBatch,
)
from optplan.profiling.critical_batch import (
    fit_critical_batch as fit_critical_batch,
)
from optplan.profiling.learned_bandwidth import (
    LearnedBandwidth as LearnedBandwidth,
)
from optplan.profiling.learned_bandwidth import (
    read_model as read_model,
)
from optplan.profiling.nccl_tests import (
    read_nccl_tests as read_nccl_tests,
)
from optplan.profiling.profiled_instances import (
    describe_search as describe_search,
)
from optplan.profiling.profiled_instances import (
    merge_profiles as merge_profiles,
)
from optplan.profiling.profiled_instances import (
    read_profile as read_profile,
)
from optplan.profiling.profiled_instances import (
    renew_class as renew_class,
)
from optplan.profiling.profiled_instances import (
    renew_search as renew_search,
)
from optplan.profiling.search_profile import (
    Profile as Profile,
)
from optplan.profiling.search_profile import (
    ProfileSettings as ProfileSettings,
)
from optplan.profiling.search_profile import (
    profile_here as profile_here,
)
from optplan.profiling.torch_profiler import (
    ProfilerSettings as ProfilerSettings,
)
from optplan.profiling.torch_profiler import (
    profile_module as profile_module,
)
from optplan.profiling.trial_timings import (
    measure_speedup as measure_speedup,
)
from optplan.profiling.trial_timings import (
    summarise as summarise,
)

COMMANDS: dict[str, str]
LISTS: dict[str, str]
__all__: list[str]
