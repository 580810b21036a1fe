"""Errors name what the user typed: options, and not the parameters of the functions that a command calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from optplan.errors import DataError, UsageError


@contextmanager
def naming_options(own: Mapping[str, str], others: Mapping[str, str]) -> Iterator[None]:
    """Let errors name options where they would name parameters, the command's ``own`` or those of what it calls."""
    # Wrong usage is about its own; the paths of wrong data, such as ``budget``, are mostly those of a file. Others are
    # known in front of a message by their place, within it by their underscore: other words may be meant as such.
    unmistakable = [name for name in others if "_" in name]
    word = re.compile(rf"\b(?:{'|'.join(unmistakable)})\b") if unmistakable else None

    def rename(text: str) -> str:
        return word.sub(lambda found: others[found[0]], text) if word else text

    try:
        yield
    except DataError as error:
        name, colon, rest = error.path.partition(":")
        path = f"{others.get(name, name)}{colon}{rest}"
        raise type(error)(path, rename(error.problem), rename(error.fix)) from None
    except UsageError as error:
        known = {**own, **others}
        name, colon, rest = str(error).partition(":")
        raise type(error)(f"{known.get(name, name)}{colon}{rename(rest)}") from None
