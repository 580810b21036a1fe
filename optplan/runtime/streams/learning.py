"""What a stream's jobs show goes to the width calculator: arrivals, the speed of every epoch, completions."""

from __future__ import annotations

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.online.calculator import Calculation, Verdict, WidthCalculator
from optplan.online.events import Arrival, Completion, Measurement, OnlineEvent, Run
from optplan.online.terms import Terms
from optplan.online.width_table import WidthTable


class Learner:
    """Keeps a calculator on the run's clock.

    Parameters
    ----------
    instance
        What is known at the start, with the budget.
    terms
        The calculator's settings.
    """

    def __init__(self, instance: BoaInstance, terms: Terms) -> None:
        self._calculator = WidthCalculator(instance, terms, now_s=0.0)
        self._terms = terms
        self._events: list[OnlineEvent] = []
        self._runs: dict[str, list[Run]] = {}
        self._heard = 0

    def see_arrival(self, job: str, job_class: str, at_s: float) -> None:
        """Note that a job is there."""
        self._events.append(Arrival(id=self._name("arrival"), at_s=at_s, job_class=job_class))
        self._runs[job] = []

    def see_epoch(self, job: str, job_class: str, epoch: int, run: Run, at_s: float) -> None:
        """Note where an epoch of a job, the first of them 1, ran for how long."""
        if run.seconds > 0 and job in self._runs:
            self._events.append(
                Measurement(
                    id=self._name("epoch"),
                    at_s=at_s,
                    job_class=job_class,
                    gpus=run.gpus,
                    gpu_type=run.gpu_type,
                    speed=1.0 / run.seconds,
                    epoch=epoch,
                )
            )
            self._runs[job].append(run)

    def see_end(self, job: str, job_class: str, at_s: float, *, whole: bool) -> None:
        """Note that a job is over."""
        ran = tuple(self._runs.pop(job, ()))
        self._events.append(
            Completion(id=self._name("end"), at_s=at_s, job_class=job_class, ran=ran, whole=whole and bool(ran))
        )

    def consider(self, now_s: float) -> tuple[WidthTable, Calculation] | None:
        """Return a new table, and why there is one; None where the present one stays."""
        self._calculator.take(self._events, now_s)
        self._events = []
        made = self._calculator.consider(now_s)
        if made is None or made.verdict is not Verdict.PUBLISHED or self._calculator.table is None:
            return None
        return self._calculator.table, made

    def next_s(self, now_s: float) -> float:
        """Return when the calculator wants to be asked again if nothing happens."""
        return now_s + self._terms.every_s

    def _name(self, kind: str) -> str:
        self._heard += 1
        return f"{kind} {self._heard}"
