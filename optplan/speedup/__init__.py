"""Speedup curves: tables, Amdahl's law, power law, goodput; their hulls and fits."""

from typing import Annotated

from pydantic import Field

from optplan.speedup.curves import NOT_SAID, UNTRIED, AmdahlSpeedup, Evidence, PowerSpeedup, SpeedupCurve, TableSpeedup
from optplan.speedup.fitting import Fit, fit_amdahl, fit_best, fit_power, fit_table
from optplan.speedup.goodput import GoodputSpeedup
from optplan.speedup.hulls import (
    describe_hull_changes,
    lower_left_hull,
    monotone_concave_hull,
    speed_on_hull,
)

#: Any speedup curve, as the type of a field; the curve's own field ``form`` says which it is.
Speedup = Annotated[TableSpeedup | AmdahlSpeedup | PowerSpeedup | GoodputSpeedup, Field(discriminator="form")]

__all__ = [
    "NOT_SAID",
    "UNTRIED",
    "AmdahlSpeedup",
    "Evidence",
    "Fit",
    "GoodputSpeedup",
    "PowerSpeedup",
    "Speedup",
    "SpeedupCurve",
    "TableSpeedup",
    "describe_hull_changes",
    "fit_amdahl",
    "fit_best",
    "fit_power",
    "fit_table",
    "lower_left_hull",
    "monotone_concave_hull",
    "speed_on_hull",
]
