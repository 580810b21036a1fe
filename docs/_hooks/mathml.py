"""Turns the TeX that pymdownx.arithmatex marks into MathML, which browsers draw without a script or a font of ours."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from math_core import LatexError, LatexToMathML
from mkdocs.exceptions import PluginError

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

_MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\(?:\((?P<inline>.*?)\\\)|\[(?P<block>.*?)\\\])\s*</(?P=tag)>',
    re.DOTALL,
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CONVERTER = LatexToMathML()


def on_page_content(content: str, page: Page, **_: object) -> str:
    """Replace every formula of a page's HTML.

    Raises
    ------
    PluginError
        When a formula is not TeX that the converter knows; the message shows page, formula and place.
    """

    def to_mathml(match: re.Match[str]) -> str:
        block = match["block"] is not None
        tex = html.unescape(match["block"] if block else match["inline"]).strip()
        try:
            mathml = _CONVERTER.convert_with_local_state(tex, displaystyle=block)
        except LatexError as error:
            message = f"{page.file.src_path}: formula {tex!r}: {_COLOUR.sub('', str(error))}"
            raise PluginError(message) from error
        return f'<div class="math">{mathml}</div>' if block else mathml

    return _MARKED.sub(to_mathml, content)
