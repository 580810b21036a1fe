"""What every formulation's data has in common."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

from pydantic import Field

from optplan.schema import ByName, FrozenModel


class Instance(FrozenModel):
    """The data of one problem, frozen and validated.

    A formulation's instance adds ``formulation`` and ``version`` as literal fields, by which a reader finds the class,
    and whatever the problem needs.

    Parameters
    ----------
    name
        How tables and files call it.
    description
        One or two sentences for a reader.
    source
        Where the figures come from, by what they are (``trace``, ``profiles``, ``prices``): provenance, not data.
    """

    name: Annotated[str, Field(min_length=1)] = "unnamed"
    description: str = ""
    source: ByName[str] = Field(default_factory=dict)

    def content_hash(self) -> str:
        """Return the SHA-256 of the content, the same for every file that says the same thing; computed once."""
        return self._content_hash

    @cached_property
    def _content_hash(self) -> str:
        return super().content_hash()


class Solution(FrozenModel):
    """Decisions in a problem's own terms; every formulation has its own subclass."""
