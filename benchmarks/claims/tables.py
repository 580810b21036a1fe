"""The pages: one for each paper, an index of all claims by verdict, and the table of the README."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from claims.papers import NAMES, Kept, load, read_kept, rows_of
from claims.record import Chart, Claim, Paper, Verdict
from optplan.errors import UsageError
from optplan.instances.files import write_text

MARKS = "<!-- claims: written by make bench-paper -->", "<!-- end of claims -->"
_HEAD = ("where", "claim", "the paper", "here", "verdict", "set-up")
#: Digits of a hash that are shown.
_SHOWN = 12


def write_all(docs: Path, cache: Path, readme: Path | None) -> list[Path]:
    """Write every page that has claims, the charts, the index and the README's table; returns what was written."""
    texts = list_pages(cache)
    if readme is not None:
        texts |= {str(readme.resolve()): fill_readme(readme.read_text(encoding="utf-8"), cache)}
    paths = [docs / name for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(text, path, overwrite=True)
    return paths


def list_pages(cache: Path) -> dict[str, str]:
    """Return the text of every page and chart by its name in the folder of the documentation."""
    texts: dict[str, str] = {}
    for name in NAMES:
        texts |= list_pages_of(name, read_kept(name, cache))
    texts["claims.md"] = write_index(_gather(cache))
    return texts


def list_pages_of(name: str, kept: Mapping[str, Kept]) -> dict[str, str]:
    """Return the text of a paper's page and charts by their names; none without a claim."""
    paper = load(name)
    if not paper.list_claims(rows_of(kept)):
        return {}
    charts = paper.draw_charts(rows_of(kept))
    texts = {_chart_path(paper, chart): chart.svg + "\n" for chart in charts}
    return {**texts, paper.page: write_page(paper, kept, charts)}


def write_page(paper: Paper, kept: Mapping[str, Kept], charts: Sequence[Chart]) -> str:
    """Write a paper's page: claims, charts, what the paper's module tells of its rows, and where they come from."""
    rows = rows_of(kept)
    claims = paper.list_claims(rows)
    parts = [f"# The claims of {paper.title}", paper.intro.strip(), count_in_words(claims)]
    parts += ["## Claims", tabulate_claims(claims)]
    if charts:
        parts.append("## Charts")
    for chart in charts:
        parts += [chart.caption, f'<div class="figure">\n--8<-- "docs/{_chart_path(paper, chart)}"\n</div>']
    parts += [paper.tell(rows).strip(), "## How this was made", tell_origin(paper, kept)]
    return "\n\n".join(part for part in parts if part) + "\n"


def tabulate_claims(claims: Sequence[Claim]) -> str:
    """Write the claims as a Markdown table, and below it the set-ups, each once, by the letters in the table."""
    letters = {setting: _letter(number) for number, setting in enumerate(dict.fromkeys(c.setting for c in claims))}
    rows = [
        [
            claim.where,
            claim.says,
            claim.paper,
            claim.here,
            f"**{claim.verdict}**: {claim.why}",
            f"[{letters[claim.setting]}](#set-up-{letters[claim.setting].lower()})",
        ]
        for claim in claims
    ]
    settings = [f'<span id="set-up-{letter.lower()}">**{letter}**</span>: {text}' for text, letter in letters.items()]
    return "\n\n".join([write_table(_HEAD, rows), "## Set-ups", *settings])


def _letter(number: int) -> str:
    """Return A to Z, then A2 and so on."""
    return chr(ord("A") + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def count_in_words(claims: Sequence[Claim]) -> str:
    """Say how many claims have which verdict."""
    counts = Counter(claim.verdict for claim in claims)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    return f"{len(claims)} claims: {said}."


def write_index(gathered: Mapping[str, tuple[Paper, Sequence[Claim]]]) -> str:
    """Write the index: counts, then every claim by verdict."""
    parts = [
        "# What the papers claim",
        "Every claim with a number in the four papers whose problems optplan solves, set beside what comes out here. "
        "Verdicts are computed from measured rows; each paper's page has the reason and the set-up of every row.",
        count_verdicts(gathered, ""),
    ]
    for verdict in Verdict:
        rows = [
            [f"[{paper.title}]({paper.page})", claim.where, claim.says, claim.paper, claim.here]
            for paper, claims in gathered.values()
            for claim in claims
            if claim.verdict is verdict
        ]
        if rows:
            parts += [
                f"## {verdict[:1].upper()}{verdict[1:]}",
                write_table(("paper", "where", "claim", "the paper", "here"), rows),
            ]
    return "\n\n".join(parts) + "\n"


def count_verdicts(gathered: Mapping[str, tuple[Paper, Sequence[Claim]]], folder: str) -> str:
    """Write the table of how many claims of each paper have which verdict."""
    rows = []
    for paper, claims in gathered.values():
        counts = Counter(claim.verdict for claim in claims)
        rows.append([f"[{paper.title}]({folder}{paper.page})", str(len(claims)), *(str(counts[v]) for v in Verdict)])
    return write_table(("paper", "claims", *(verdict.value for verdict in Verdict)), rows)


def fill_readme(text: str, cache: Path) -> str:
    """Return the README with its table of claims as the rows give it.

    Raises
    ------
    UsageError
        When one of the two markers is missing.
    """
    first, last = MARKS
    if first not in text or last not in text:
        message = f"the README has no table of claims: put it between the lines {first} and {last}"
        raise UsageError(message)
    before, rest = text.split(first, 1)
    return f"{before}{first}\n\n{count_verdicts(_gather(cache), 'docs/')}\n\n{last}{rest.split(last, 1)[1]}"


def tell_origin(paper: Paper, kept: Mapping[str, Kept]) -> str:
    """Say how each part was measured: date, processor time, seed, data and machine."""
    rows = []
    for part, one in kept.items():
        data = ", ".join(f"`{file}` {digest[:_SHOWN]}" for file, digest in one["data"].items())
        seed = "" if one["seed"] is None else str(one["seed"])
        rows.append([part, one["date"], f"{one['processor_seconds']:,.1f}", seed, data, one["machine"]])
    seconds = sum(one["processor_seconds"] for one in kept.values())
    said = (
        f"`make bench-paper` measures what is missing in `benchmarks/claims/rows/{paper.name}.json` and writes this "
        f"page: {seconds:,.0f} s of processor time in all. Data are named with the beginning of their SHA-256."
    )
    head = ("part", "measured on", "processor seconds", "seed", "data", "machine")
    return f"{said}\n\n{write_table(head, rows)}"


def write_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table, columns of numbers to the right."""
    right = [
        bool(rows) and all(re.fullmatch(r"[-+]?[\d.,]+( ?%)?|", row[at]) for row in rows) for at in range(len(head))
    ]
    rule = "|" + "".join(" --: |" if each else " --- |" for each in right)
    first, *others = (f"| {' | '.join(row)} |" for row in (head, *rows))
    return "\n".join([first, rule, *others])


def _chart_path(paper: Paper, chart: Chart) -> str:
    return f"assets/claims-{paper.name}-{chart.name}.svg"


def _gather(cache: Path) -> dict[str, tuple[Paper, list[Claim]]]:
    gathered = {}
    for name in NAMES:
        paper = load(name)
        claims = paper.list_claims(rows_of(read_kept(name, cache)))
        if claims:
            gathered[name] = paper, claims
    return gathered
