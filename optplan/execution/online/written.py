"""What is written down of whatever goes on after it was stopped: some of its attributes, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def write_state(owner: object, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes, of which ``kinds`` says what they are, as plain data."""
    # Loaded on use: most who calculate never write.
    from pydantic_core import to_jsonable_python

    return {name: to_jsonable_python(getattr(owner, name)) for name in kinds}


def read_state(owner: object, kinds: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Set attributes to what :func:`write_state` returned of them."""
    from pydantic import TypeAdapter

    for name, kind in kinds.items():
        setattr(owner, name, TypeAdapter(kind).validate_python(state[name]))
