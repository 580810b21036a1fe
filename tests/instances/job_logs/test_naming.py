"""Classes by pattern, and as names and sizes suggest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from optplan.errors import UsageError
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.naming import class_by_label, class_by_pattern, suggest_classes
from optplan.instances.job_logs.records import LeftOut, Row


def _rows(names: Sequence[str], hours: float = 1.0, label: str = "") -> list[Row]:
    return [Row("", "", name, label, 0.0, None, 3600.0 * hours, 1, "", "", 0) for name in names]


def _jobs(*names: str) -> Jobs:
    return Jobs.of(_rows(names))


def test_a_pattern_names_classes_by_its_group_or_by_all_of_it() -> None:
    """What it does not fit is left out, and told with an example."""
    left_out = LeftOut()
    jobs = _jobs("train-bert-1", "train-bert-2", "train-yolo-1", "notebook")
    assert {name: len(each) for name, each in class_by_pattern(jobs, r"train-(\w+)-", left_out).items()} == {
        "bert": 2,
        "yolo": 1,
    }
    assert str(left_out) == "1 jobs whose name the pattern does not fit (first: 'notebook')"
    assert set(class_by_pattern(jobs, r"bert|yolo", LeftOut())) == {"bert", "yolo"}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", r"class-pattern: '\(' is no regular expression"),
        ("resnet", r"class-pattern: 'resnet' is found in no name, such as 'a'; correct it, or leave it out"),
    ],
)
def test_patterns_that_are_refused(pattern: str, message: str) -> None:
    """Wrong ones, and those that find nothing."""
    with pytest.raises(UsageError, match=message):
        class_by_pattern(_jobs("a"), pattern, LeftOut())


def test_a_column_names_classes() -> None:
    """Jobs without an entry are a class of their own."""
    assert set(class_by_label(Jobs.of([*_rows(["a"], label="nlp"), *_rows(["b"])]))) == {"nlp", "unlabelled"}


def test_stems_leave_out_what_belongs_to_one_job() -> None:
    """Numbers, dates, hashes and the seeds of a sweep; two sizes of a network are no sweep."""
    names = [f"train-resnet{size}-seed{seed}-2026030{seed}" for size in (18, 50) for seed in range(1, 7)]
    names += [f"bert_{seed:04d}_3fa9c{seed}e" for seed in range(5)] + ["bert_0006_abcdef"]
    assert {name: len(each) for name, each in suggest_classes(_jobs(*names)).items()} == {
        "bert": 6,
        "train-resnet18": 6,
        "train-resnet50": 6,
    }


def test_where_names_say_nothing_sizes_do() -> None:
    """Ten jobs of half a GPU-hour and ten of fifty, all called train, are two classes."""
    jobs = Jobs.of([*_rows(["train"] * 10, 0.5), *_rows(["train"] * 10, 50.0)])
    assert set(suggest_classes(jobs)) == {"train-small", "train-large"}
    assert set(suggest_classes(Jobs.of(_rows(["1", "2", "3"], 0.5)))) == {"jobs"}


def test_rare_stems_are_put_together_by_size() -> None:
    """Six different names of one job each are no classes beside one with many jobs."""
    jobs = [*_rows([f"bert-{i}" for i in range(9)]), *_rows(["a", "b", "c"], 0.5), *_rows(["d", "e", "f"], 20.0)]
    assert {name: len(each) for name, each in suggest_classes(Jobs.of(jobs)).items()} == {
        "bert": 9,
        "other-small": 3,
        "other-large": 3,
    }
