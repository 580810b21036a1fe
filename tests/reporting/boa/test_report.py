"""The report: what it says, that it is well-formed, and that nothing gets into it or out of it."""

from __future__ import annotations

import base64
import builtins
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optplan.contracts import (
    BoundProof,
    Check,
    EnumeratedCertificate,
    Frontier,
    Infeasibility,
    Relaxation,
    Result,
    Solution,
    Verification,
)
from optplan.errors import MissingExtraError, OutputError, UsageError, VerificationError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.solving import solve
from optplan.verification import verify

if TYPE_CHECKING:
    from tests.reporting.boa.conftest import ResultMaker

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.boa.phrases import say_answer, say_how_good
from optplan.reporting.pages import load_template, require_packages
from optplan.reporting.presenters import Beside, gather
from optplan.reporting.reports import build_report, write_report

CASES = Path(__file__).parents[2] / "cases"
VOID = {"meta", "link", "br", "img", "input"}


class Page(HTMLParser):
    """A page taken apart: its elements, its text, its scripts; complains about unbalanced tags.

    Parameters
    ----------
    text
        The page.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of an element; elements are apart in the text, as most of them are on the page."""
        self.words.append(" ")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that the element that ends is the one that began last."""
        self.words.append(" ")
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Tell text from scripts."""
        if self._open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self._open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        """The visible text, with plain single spaces."""
        return " ".join("".join(self.words).split())

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page(instance: BoaInstance, result: Result[Solution], rival: Result[Solution], frontier: Frontier) -> Page:
    """Return the full report of the plan worked out by hand."""
    return Page(build_report(instance, result, Beside(background=frontier, rivals=[rival])))


def test_answer_comes_first(page: Page, instance: BoaInstance, result: Result[Solution]) -> None:
    """The headline answers the question, and what follows says how good the answer is, as on a terminal."""
    assert page.text.index(say_answer(instance, result)) < page.text.index(say_how_good(instance, result))
    assert "5 min 23 s" in page.text


def test_page_has_every_part(page: Page) -> None:
    """Cards, plan, budgets, comparison, question, proof, assumptions, glossary, provenance."""
    for words in (
        "7 running + 0.80 rescaling",
        "$11,388 at $2.00 per GPU-hour",
        "vision 1 to 2 2 40 min 30 s 3 4 18 min 00 s speech",
        "10.8 $15,768 54 min 00 s 18 % shorter nothing more buys nothing",
        "fixed-width the best single width per class for the whole job 1 h 21 min 23 % longer 7.20 - - none 123 ms",
        "policy pure: all jobs of a class get the same widths",
        "Put a price on GPUs: 5 min 23 s of mean completion time for each GPU in use on average.",
        "optplan verify instance.json result.json",
        "every job gets its GPUs at once",
        "price of v100 $2.00 an hour (price list, 2025-01-31)",
        "trace a pencil",
        "seed 7",
    ):
        assert words in page.text


@pytest.fixture(scope="module")
def typed_page(typed_report: str) -> Page:
    """Return the full report of the plan with two types, with every view."""
    return Page(typed_report)


def test_page_with_types_has_every_part(typed_page: Page) -> None:
    """Types, limits, where classes run and why, and the views; the headline keeps to the budget."""
    for words in (
        "in one pass. One more dollar an hour saves 1 min 30 s, one less costs 2 min 00 s. The main figures",
        "cost a month $5,256 $7.20 an hour, $173 a day",
        "One more a100 in the quota saves 2 min 30 s of mean completion time, worth $40.00 a day at the budget's own",
        "vision 1 1 t4 33 min 00 s 2 1 a100 21 min 00 s",
        "GPU types, what they cost, and what more of them is worth",
        "all types 3.30 100 % $7.20 $173 $5,256",
        "quota of a100 1.30 GPUs 1.30 GPUs 100 % 2 min 30 s $40.00 a day",
        "Why each class gets these GPUs",
        "vision 1 1 t4 2 t4 -50 +0.5 100 +12",
        "The line is the best that any plan can do with so many dollars an hour",
        "US dollars an hour Cost a month",
        "t4 a100",
        "vision 1.50 0.30 1.10 t4 , 0.70 a100 55 % 54 % 54 min 00 s 71 %",
        "fixed-width the best single width per class for the whole job 57 min 00 s 49 % longer 3.80 $3.80 -",
        "limits $5,256 a month ($7.20 an hour) and at most 1.30 a100 on average",
        "GPUs, where sizes were measured",
        "Put a price on money: 1 min 30 s of mean completion time for each dollar an hour and 2 min 30 s of mean "
        "completion time for each a100 in use on average. Under these prices",
        "A plan that keeps to all limits pays at most 14 min 03 s of that",  # 90 x 7.2 + 150 x 1.3 = 843 s
        "A change of the GPU type pauses the job for longer",
        "Quotas hold on average over time, as the budget does.",
        "quota of a100 1.30 on average",
    ):
        assert words in typed_page.text, words


def test_page_with_types_is_well_formed(typed_page: Page) -> None:
    """One main heading, unique ids, captions on tables, every link leads somewhere, every chart has its figure."""
    levels = [int(tag[1]) for tag, _ in typed_page.elements if re.fullmatch("h[1-6]", tag)]
    assert (levels[0], set(levels[1:])) == (1, {2})
    ids = [attributes["id"] for _, attributes in typed_page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(typed_page.attributes("caption")) == len(typed_page.attributes("table"))
    targets = {str(link["href"]) for link in typed_page.attributes("a")}
    assert targets <= {f"#{name}" for name in ids}
    assert {"#types", "#why", "#estimates", "#frontiers", "#changes"} <= targets
    places = {a["id"] for a in typed_page.attributes("div") if a.get("class") == "chart"}
    assert set(json.loads(typed_page.scripts[0])) == places


def test_views_are_left_out_without_data(page: Page) -> None:
    """One type, no quota, no views: none of their sections, and the colours tell no types apart."""
    targets = {str(link["href"]) for link in page.attributes("a")}
    assert not {"#types", "#why", "#estimates", "#frontiers", "#changes"} & targets
    assert "by type" not in page.text.lower()
    assert "Quota" not in page.text


def test_infeasible_quotas_are_explained(typed_instance: BoaInstance, make_result: ResultMaker) -> None:
    """The proof weighs the limits, and says how."""
    relaxation = Relaxation(limit="quota.a100", given=1.3, least_feasible=2.5, enough=2.5, unit="gpu")
    found = Infeasibility(reason="too little", relaxations=(relaxation,), multipliers={"budget": 1.0, "quota.a100": 2})
    result = make_result(typed_instance, None, status="infeasible", infeasibility=found)
    text = Page(build_report(typed_instance, result)).text
    assert "quota of a100 1.3 GPUs 2.5 GPUs" in text
    assert "Weigh what plans use: each dollar an hour of the budget by 1 and each a100 by 2." in text
    assert "it exceeds the limits weighed in the same way." in text


def test_a_report_where_no_budget_helps_has_no_frontier(tmp_path: Path) -> None:
    """A quota and a due date leave no plan whatever the budget: the page says what would help, and draws no line."""
    instance = BoaInstance.parse(json.loads((CASES / "due-date-that-cannot-help.json").read_text()))
    write_report(tmp_path / "page.html", instance, solve(instance))
    text = Page((tmp_path / "page.html").read_text()).text
    assert "quota of a 0.215984 GPUs 1.80923 GPUs" in text
    assert "What other budgets would buy" not in text


def test_infeasible_money_is_explained(typed_instance: BoaInstance, make_result: ResultMaker) -> None:
    """Where the budget alone is too small, the cheapest widths prove it."""
    found = Infeasibility(reason="too little", relaxations=(), multipliers={"budget": 1.0, "quota.a100": 0.0})
    result = make_result(typed_instance, None, status="infeasible", infeasibility=found)
    text = Page(build_report(typed_instance, result)).text
    assert "For each class, take the widths that cost the least, starts included." in text


def test_proof_adds_up(instance: BoaInstance, result: Result[Solution]) -> None:
    """Price 323.08 s: the total of 3,895.4 + 8 x 323.08 = 6,480 s less the 2,584.6 s paid for GPUs is the bound."""
    text = Page(build_report(instance, result)).text
    assert "Completion time and price together come to at least 1 h 48 min." in text
    assert "A plan that keeps to 8 GPUs pays at most 43 min 05 s of that." in text
    assert "So its mean completion time is at least 1 h 05 min" in text


def test_enumerated_proof_is_explained(instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker) -> None:
    """The page says what was enumerated and what was found."""
    certificate = EnumeratedCertificate(multipliers={"budget": 323.0}, allowance=65.0, optimum=3960.0, bound=3960.0)
    proven = make_result(
        instance,
        solution,
        status="optimal",
        bound=3960.0,
        bound_proof=BoundProof.ENUMERATED,
        certificates=(certificate,),
    )
    text = Page(build_report(instance, proven)).text
    assert say_how_good(instance, proven) in text
    assert "whose total of time and price lies within 1 min 05 s of the least was looked at." in text
    assert "The best of them that keeps to the budget has 1 h 06 min; no other one can be better" in text
    apart = proven.replace(certificates=(certificate.replace(divided=("long", "short")),))
    said = "of the least was looked at, or excluded with others that share its widths of long and short. The best"
    assert said in Page(build_report(instance, apart)).text


def test_well_formed_and_accessible(page: Page) -> None:
    """Language, one main heading, no level skipped, unique ids, captions on tables, labels on charts."""
    assert page.attributes("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(page.attributes("caption")) == len(page.attributes("table"))
    charts = [attributes for attributes in page.attributes("div") if attributes.get("class") == "chart"]
    assert len(charts) == 6  # two speedups, GPUs at once, the frontier, two plans' widths
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in charts)
    assert all(cell["scope"] in {"col", "row", "rowgroup"} for cell in page.attributes("th"))
    targets = {str(link["href"]) for link in page.attributes("a")}
    assert targets <= {f"#{name}" for name in ids}


def test_page_needs_no_network(page: Page) -> None:
    """Nothing in the page is fetched: no element has an address, and the policy forbids every connection."""
    for tag, attributes in page.elements:
        assert "src" not in attributes
        if tag == "link":
            assert attributes["href"] == "data:,"
    policy = next(a["content"] for a in page.attributes("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")


def test_only_its_own_scripts_may_run(page: Page) -> None:
    """The policy names the two scripts by their content; what is data, packed plotly.js too, does not run."""
    kinds = [attributes.get("type") for attributes in page.attributes("script")]
    assert kinds == ["application/json", "text/plain", None]
    scripts = [gzip.decompress(base64.b64decode(page.scripts[1])).decode(), page.scripts[2]]
    policy = next(str(a["content"]) for a in page.attributes("meta") if "http-equiv" in a)
    named = set(re.findall(r"'(sha256-[^']+)'", policy))
    made = {"sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts}
    assert named == made
    assert "script-src 'unsafe-inline'" not in policy


def test_a_report_takes_less_than_a_megabyte(page: Page) -> None:
    """What stands in it of plotly.js draws lines and bars; an installation without npm's part has all of it."""
    part = files("optplan.reporting").joinpath("templates", "plotly-basic.min.js")
    assert len(page.source.encode()) < (1_000_000 if part.is_file() else 2_500_000)


def test_charts_are_data_in_the_page(page: Page) -> None:
    """Every chart's place has its figure."""
    figures = json.loads(page.scripts[0])
    places = {a["id"] for a in page.attributes("div") if a.get("class") == "chart"}
    assert set(figures) == places


def test_names_are_escaped(nasty_instance: BoaInstance, nasty_result: Result[Solution], frontier: Frontier) -> None:
    """Names that are HTML are shown as they are and make no element."""
    nasty_frontier = Frontier(**{**vars(frontier), "instance_name": nasty_instance.name})
    command = "optplan verify '<i>.json' r.json"
    source = build_report(nasty_instance, nasty_result, Beside([nasty_result], nasty_frontier, verify_command=command))
    nasty = Page(source)
    assert not nasty.attributes("img")
    assert not nasty.attributes("i")
    assert len(nasty.attributes("script")) == 3
    assert "<script>alert(1)</script>&<b>%{x}</b>" in nasty.text
    assert "alert(2)" not in source.replace("onerror=alert(2)&gt;", "").replace("onerror=alert(2)\\u0026gt;", "")


def test_commands_can_be_copied(instance: BoaInstance, result: Result[Solution]) -> None:
    """Text has no-break spaces between numbers and units; a command has none, even where it looks like that."""
    source = build_report(instance, result, Beside(verify_command="optplan verify 'run 5 s.json' result.json"))
    assert "<code>optplan verify &#39;run 5 s.json&#39; result.json</code>" in source
    assert "1\N{NO-BREAK SPACE}h 06\N{NO-BREAK SPACE}min" in source


def test_infeasible_says_what_would_help(
    instance: BoaInstance, infeasible_result: Result[Solution], frontier: Frontier
) -> None:
    """Reason and least budget by class, no plan and no figures; the frontier shows what other budgets buy."""
    page = Page(build_report(instance.replace(budget="5gpu"), infeasible_result, Beside(background=frontier)))
    assert "6.2 GPUs; the budget is 5" in page.text
    assert "budget 5 GPUs 6.2 GPUs of which vision 4.1 GPUs of which speech 2.1 GPUs" in page.text
    assert "Add the classes up: the sum is the least that any plan uses, and it exceeds the budget." in page.text
    assert "The plan" not in page.text.split("What was asked")[0]
    assert len(json.loads(page.scripts[0])) == 1


def test_no_plan_found_keeps_the_bound(instance: BoaInstance, unknown_result: Result[Solution]) -> None:
    """A solve that ran out of time says so, and its bound is still told."""
    page = Page(build_report(instance, unknown_result))
    assert say_answer(instance, unknown_result) in page.text
    assert say_how_good(instance, unknown_result) in page.text
    assert page.scripts == []  # without charts there is nothing to run


def test_frontier_bounds_a_heuristic(instance: BoaInstance, rival: Result[Solution], frontier: Frontier) -> None:
    """A heuristic proves nothing; the frontier at the same budget does: (4,860 - 3,895.4) / 4,860 = 20 %."""
    text = Page(build_report(instance, rival, Beside(background=frontier))).text
    assert "1 h 05 min" in text
    assert "by the frontier; gap 20 %" in text


def test_mixed_plans_show_shares(instance: BoaInstance, mixed_solution: BoaSolution, make_result: ResultMaker) -> None:
    """Shares get a column, and the text says how to use them."""
    mixed = instance.replace(policy="mixed")
    text = Page(build_report(mixed, make_result(mixed, mixed_solution))).text
    assert "several shares" in text
    assert "vision 75 % 1 to 2 2 40 min 30 s 3 4 18 min 00 s 25 % 1 to 3 1 2 h 03 min" in text


def test_real_widths_are_explained(instance: BoaInstance, make_result: ResultMaker) -> None:
    """The continuous problem shows real widths, says what they mean, and has no rescaling."""
    continuous = instance.replace(problem="continuous")
    widths = BoaSolution(
        branches={
            "vision": (Branch(widths=np.array([1.37, 1.9, 4.0])),),
            "speech": (Branch(widths=np.array([2.0, 2.0])),),
        }
    )
    text = Page(build_report(continuous, make_result(continuous, widths))).text
    assert "A width that is no whole number stands for shares of the jobs" in text
    assert "vision 1 1.37" in text
    assert "rescaling" not in text.split("The plan")[0]


def test_long_rows_say_what_they_leave_out(instance: BoaInstance, make_result: ResultMaker) -> None:
    """A job with a hundred changes of width has its first ranges shown and the rest counted."""
    speech = instance.classes["speech"].replace(epoch_size_gpu_hours=[0.1] * 100)
    restless = instance.replace(classes={"speech": speech})
    widths = BoaSolution(branches={"speech": (Branch(widths=np.array([1.0, 2.0] * 50)),)})
    text = Page(build_report(restless, make_result(restless, widths))).text
    assert "epochs 24 to 100: 77 more ranges, 1 to 2 GPUs; the result's file has them all" in text


def test_many_classes_say_what_is_left_out(instance: BoaInstance, make_result: ResultMaker) -> None:
    """Tables stop at sixty classes and the map at 150 rows, and the page says so."""
    names = [f"class {number}" for number in range(160)]
    many = instance.replace(classes=dict.fromkeys(names, instance.classes["speech"]))
    rows = BoaSolution(branches={name: (Branch(widths=np.array([2.0, 2.0])),) for name in names})
    page = Page(build_report(many, make_result(many, rows)))
    assert page.text.count("100 more classes are in the result's file.") == 3  # plan, use, question
    assert "Shown are the first 150 rows; the plan's file has all of them." in page.text
    assert len(json.loads(page.scripts[0])) == 12 + 1 + 1  # speedups, widths, GPUs at once


def test_verification_is_told_or_refused(instance: BoaInstance, result: Result[Solution]) -> None:
    """A verification that holds is mentioned with what it leaves open; one that fails makes no report."""
    check = Check(family="budget", left=1.0, right=2.0, tolerance=0.0, holds=True, message="left below right")
    held = Verification(checks=(check,), on_trust=("bound: rests on engine",))
    text = Page(build_report(instance, result, Beside(verification=held))).text
    assert "all 1 checks hold taken on trust bound: rests on engine" in text
    failed = Verification(checks=(check.replace(holds=False),))
    with pytest.raises(VerificationError, match="budget: left below right"):
        build_report(instance, result, Beside(verification=failed))


def test_same_arguments_same_page(instance: BoaInstance, result: Result[Solution], frontier: Frontier) -> None:
    """Nothing in the page depends on the time or on chance."""
    assert build_report(instance, result, Beside(background=frontier)) == build_report(
        instance, result, Beside(background=frontier)
    )


def test_results_of_other_problems_are_refused(
    instance: BoaInstance, result: Result[Solution], solution: BoaSolution, make_result: ResultMaker
) -> None:
    """A rival that was given another budget would compare apples with pears."""
    other = make_result(instance.replace(budget="9gpu"), solution, solver="highs")
    with pytest.raises(UsageError, match=r"'highs'.* with hash"):
        build_report(instance, result, Beside(rivals=[other]))


def test_frontiers_of_other_problems_are_refused(
    instance: BoaInstance, result: Result[Solution], frontier: Frontier
) -> None:
    """A frontier with another name, or one that a plan lies below, is not this problem's."""
    renamed = Frontier(**{**vars(frontier), "instance_name": "other"})
    with pytest.raises(UsageError, match="the frontier is that of 'other', not of 'by-hand'; compute it anew"):
        build_report(instance, result, Beside(background=renamed))
    higher = Frontier(**{**vars(frontier), "at": lambda _: frontier.at(6.2)})
    with pytest.raises(UsageError, match="the plan of 'layered-paths' lies below it; compute it anew from the same"):
        build_report(instance, result, Beside(background=higher))


def test_report_is_written_whole_or_not_at_all(instance: BoaInstance, tmp_path: Path) -> None:
    """The file is the page, with the verification and the frontier; it stays unless it may be replaced."""
    path, found = tmp_path / "new" / "report.html", solve(instance)
    write_report(path, instance, found)
    beside = gather(instance, found, Beside(verification=verify(instance, found)))
    assert path.read_text(encoding="utf-8") == build_report(instance, found, beside)
    with pytest.raises(OutputError, match="exists; give another path"):
        write_report(path, instance, found)
    write_report(path, instance, found, overwrite=True)


def test_missing_jinja_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without jinja2 the error says what to install, before any work if asked."""
    original = builtins.__import__

    def without_jinja(name: str, *rest: Any) -> Any:  # noqa: ANN401 - stands in for __import__
        if name.startswith("jinja2"):
            raise ModuleNotFoundError(name)
        return original(name, *rest)

    require_packages()
    load_template.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without_jinja)
    with pytest.raises(MissingExtraError, match=r'jinja2 is not installed; run: pip install "optplan\[plot\]"'):
        require_packages()
