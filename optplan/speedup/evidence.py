"""Where a speedup comes from."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache

#: What stands where nobody says where a speedup comes from, as in all that was written before it could be said.
NOT_SAID = "not said"


class Evidence(StrEnum):
    """Where a speedup comes from."""

    #: Measured at that width.
    MEASURED = "measured"
    #: Computed from measurements at other widths, or from run times.
    FITTED = "fitted"
    #: Stated without either.
    ASSUMED = "assumed"


#: From what says most to what says least.
_ORDER = (Evidence.MEASURED.value, Evidence.FITTED.value, NOT_SAID, Evidence.ASSUMED.value)
#: Other words for what is computed from measurements, in the provenance of tables.
_COMPUTED = frozenset({"interpolated", "hinted"})


@lru_cache(maxsize=1024)
def read_provenance(word: str) -> str:
    """Return what a word of a table's provenance says of a width: a value of :class:`Evidence`, or ``NOT_SAID``."""
    said = Evidence.FITTED.value if word in _COMPUTED else word.partition("-")[0]
    return said if said in list(Evidence) else NOT_SAID


def find_weakest(kinds: Collection[str]) -> str:
    """Return which of some values of :class:`Evidence`, or ``NOT_SAID``, says least."""
    return max(kinds, key=_ORDER.index)


def name_law_evidence(evidence: Evidence | None) -> str:
    """Return what a law's field says: its value, or ``NOT_SAID``."""
    return NOT_SAID if evidence is None else evidence.value
