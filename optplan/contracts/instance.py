"""What every formulation's data has in common."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from optplan.contracts.faces import Shown
from optplan.contracts.proofs import Relaxation
from optplan.schema import ByName, FrozenModel

if TYPE_CHECKING:
    from typing import Generic

    from typing_extensions import TypeVar

    DecisionsT_co = TypeVar("DecisionsT_co", bound="Solution", default="Solution", covariant=True)

    class _Decided(Generic[DecisionsT_co]): ...

else:
    DecisionsT_co = object

    class _Decided:
        def __class_getitem__(cls, _: object) -> type:
            return cls


#: The entry of an instance's ``source`` that says what was changed in it.
CHANGES = "changes"


class Sense(StrEnum):
    """Whether less of the objective is better, or more."""

    MINIMISE = "minimise"
    MAXIMISE = "maximise"


class Instance(_Decided[DecisionsT_co], FrozenModel):
    """The data of one problem; a formulation's adds the literals ``formulation`` and ``version``, and what it needs."""

    # Type checkers learn from ``Instance[BoaSolution]`` of which class its solutions are.

    name: Annotated[str, Field(min_length=1)] = "unnamed"
    description: str = ""
    #: Where the figures come from, by what they are (``trace``, ``prices``): provenance, not data.
    source: ByName[str] = Field(default_factory=dict)

    @property
    def objective_unit(self) -> str:
        """Unit of the objective, such as ``s``."""
        raise NotImplementedError

    @property
    def sense(self) -> Sense:
        """Whether less of the objective is better, or more."""
        return Sense.MINIMISE

    @property
    def limits(self) -> dict[str, float]:
        """The limits by name, in the units that the formulation counts in."""
        return {}

    @property
    def cautions(self) -> tuple[str, ...]:
        """What every result has to warn of, whoever solves it: what the data leave out."""
        return ()

    def limit_as_given(self, limit: str) -> tuple[float, str]:
        """Return a limit as the instance's own fields state it, and the unit there: 30000 and usd/month."""
        raise NotImplementedError

    def count_limit(self, limit: str, given: float) -> float:
        """Return what an amount of a limit, in the unit of the instance's own fields, is in :attr:`limits`."""
        stated = self.limit_as_given(limit)[0]
        return given * (self.limits[limit] / stated if stated else 1.0)

    def relax(self, limit: str, least: float, **proof: Any) -> Relaxation:  # noqa: ANN401 - fields of the record
        """Return a limit's relaxation to an amount in the unit of the instance's own fields, with other fields."""
        given, unit = self.limit_as_given(limit)
        return Relaxation(limit=limit, given=given, least_feasible=least, unit=unit, **proof)

    def price_unit(self, limit: str) -> str:
        """Return the unit of a limit's shadow price."""
        raise NotImplementedError

    def origin(self) -> dict[str, Any]:
        """Return what records say of the instance that they are about, by the names of their fields."""
        formulation = getattr(self, "formulation", "")
        return {"formulation": formulation, "instance_name": self.name, "instance_hash": self.content_hash()}

    def content_hash(self) -> str:
        """Return the SHA-256 of the content, the same for all files that say it, however they were changed to."""
        return self._content_hash

    @cached_property
    def _content_hash(self) -> str:
        if CHANGES not in self.source:
            return super().content_hash()
        source = {what: text for what, text in self.source.items() if what != CHANGES}
        return self.model_copy(update={"source": source}).content_hash()


class Solution(Shown, FrozenModel):
    """Decisions in a problem's own terms; every formulation has its own subclass."""
