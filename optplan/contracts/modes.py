"""Which values of a metric are better; apart from conditions, which take pydantic, for what shows help."""

from enum import StrEnum


class Mode(StrEnum):
    """Which values of a metric are better."""

    MIN = "min"
    MAX = "max"
