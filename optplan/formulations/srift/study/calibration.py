"""What a run measured, written back into the instance: launches, and how long an iteration of the fleet takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from optplan.contracts.standing import Standing
from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.planning import SriftPlan
from optplan.units import format_duration

#: Relative differences below it are none.
_SAME = 1e-3
#: Factors of the times of passes that are looked at.
_LEAST, _MOST = 1e-3, 1e3


def calibrate(instance: SriftInstance, plan: SriftPlan, standing: Standing) -> tuple[SriftInstance, tuple[str, ...]]:
    """Write the mean launch, the mean pause after a loss, and one factor of all passes into an instance."""
    trials = [trial for trial in standing.trials if trial.iteration_s > 0]
    if not trials and not standing.nodes:
        raise UsageError("nothing was measured: the job has not ended its training")
    said: list[str] = []
    fields: dict[str, Any] = {}
    if standing.nodes:
        launch_s = float(np.mean([node.request_s + node.launch_s for node in standing.nodes]))
        launch_s += trials[0].start_s if trials else 0.0
        fields["launch_s"] = launch_s
        if not math.isclose(launch_s, instance.launch_s, rel_tol=_SAME, abs_tol=1e-9):
            said.append(f"launch_s: {format_duration(launch_s)}, was {format_duration(instance.launch_s)}")
    if len(trials) > 1 and instance.interruptions is not None:  # the job was started again
        restart_s = float(np.mean([trial.start_s for trial in trials[1:]]))
        fields["interruptions"] = instance.interruptions.replace(restart_s=restart_s)
        before = format_duration(instance.interruptions.restart_s)
        said.append(f"interruptions.restart_s: {format_duration(restart_s)}, was {before}")
    instance = instance.replace(**fields)
    if trials:
        done = sum(trial.iterations for trial in trials)
        taken_s = sum(trial.iterations * trial.iteration_s for trial in trials) / done
        instance = _slow_down(instance, plan, taken_s, said)
    return instance, tuple(said)


def _slow_down(instance: SriftInstance, plan: SriftPlan, taken_s: float, said: list[str]) -> SriftInstance:
    """Multiply the times of passes so that an iteration of the fleet takes what it took."""
    from scipy.optimize import brentq

    solution, gpus = SriftSolution(groups=plan.groups), {vms.gpu for vms in plan.units}

    def scale(factor: float) -> SriftInstance:
        devices = {
            name: device.replace(forward_s=factor * device.forward_s, backward_s=factor * device.backward_s)
            if name in gpus
            else device
            for name, device in instance.job.devices.items()
        }
        return instance.replace(job=instance.job.replace(devices=devices))

    def predict(factor: float) -> float:
        return evaluate(scale(factor), solution).measures["iteration_s"]

    before_s = predict(1.0)
    if math.isclose(taken_s, before_s, rel_tol=_SAME):
        return instance
    if not predict(_LEAST) < taken_s < predict(_MOST):
        said.append(
            f"an iteration took {format_duration(taken_s)}, which no time of passes explains (predicted: "
            f"{format_duration(before_s)}); the profile is as it was: measure it, and the network, anew"
        )
        return instance
    factor = brentq(lambda factor: predict(factor) - taken_s, _LEAST, _MOST)
    what = f"job.devices ({', '.join(sorted(gpus))}): passes take {factor:.3g} times as long"
    said.append(f"{what}, so that an iteration takes {format_duration(taken_s)}, was {format_duration(before_s)}")
    return scale(factor)
