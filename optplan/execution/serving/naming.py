"""Which class a job belongs to, by the name that its scheduler knows it by."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from optplan.errors import DataError, UsageError, nearest_name_hint, show_value

#: What may stand between a class and the rest of a name.
_SEPARATORS = "-_./: "


@dataclass(frozen=True)
class ClassNames:
    """Finds classes by a regular expression: the class is its first group, else all that it finds.

    Where it is empty, it is the known class that the name begins with, the longest of several: ``bert`` for
    ``bert-large-17``.
    """

    pattern: str = ""

    def __post_init__(self) -> None:
        """Check the pattern."""
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise UsageError(f"class-pattern: {show_value(self.pattern)} is no regular expression ({error})") from None

    def find(self, name: str, known: Iterable[str]) -> str:
        """Return the class of a job."""
        if self.pattern:
            match = re.search(self.pattern, name)
            found = "" if match is None else next((group for group in match.groups() if group), match[0])
            if found:
                return found
            raise DataError("name", f"{show_value(name)} is not what the pattern finds", "correct --class-pattern")
        classes = list(known)
        fits = [each for each in classes if name == each or (name.startswith(each) and name[len(each)] in _SEPARATORS)]
        if not fits:
            fix = f"begin its name with one of the classes, or give --class-pattern; {nearest_name_hint(name, classes)}"
            raise DataError("name", f"{show_value(name)} begins with no class that is known", fix)
        return max(fits, key=len)
