"""Turns the TeX of a page into MathML, which browsers draw without a script or a font of ours."""

from __future__ import annotations

import re

from math_core import LatexError, LatexToMathML

#: What is left as it is, and formulas: ``$$...$$`` on lines of their own, ``$...$`` within one paragraph.
_PIECES = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)[^\n]*$"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
    r"|^\$\$(?P<block>.+?)\$\$$"
    r"|(?<![\\\$])\$(?P<inline>(?=\S)(?:\\.|[^\\$\n]|\n(?!\n))+?(?<=\S))\$(?!\d)",
    re.DOTALL | re.MULTILINE,
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: What Markdown would read in what a formula shows.
_MARKS = {ord(mark): f"&#{ord(mark)};" for mark in "|*_[]`\\"}
_TEXT = re.compile(r"(?<=>)[^<>]+(?=<)")
_CONVERTER = LatexToMathML()


def fill_formulas(markdown: str) -> str:
    """Replace every formula of a page by MathML, which Markdown passes on as it is.

    Raises
    ------
    ValueError
        When a formula is not TeX that the converter knows; the message shows formula and place.
    """
    return _PIECES.sub(_fill, markdown)


def _fill(match: re.Match[str]) -> str:
    tex = match["block"] or match["inline"]
    if tex is None:
        return match[0]
    try:
        mathml = _CONVERTER.convert_with_local_state(tex.strip(), displaystyle=match["block"] is not None)
    except LatexError as error:
        raise ValueError(f"formula {tex!r}: {_COLOUR.sub('', str(error))}") from error
    if match["block"] is not None:
        return f'<div class="math">{mathml}</div>'
    # Markdown takes a line that begins with <math> for a block; within <span> it never is one.
    return "<span>" + _TEXT.sub(lambda text: text[0].translate(_MARKS), mathml).replace("\n", "") + "</span>"
