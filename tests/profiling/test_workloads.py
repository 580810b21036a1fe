from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from optplan.errors import DataError, MissingExtraError, UsageError
from optplan.profiling.workloads import (
    call_module,
    load_workload,
    make_workload,
    mean_square,
    repeat_sample,
    require_torch,
)
from tests.conftest import Later

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    nn, torch = map(Later, ("torch.nn", "torch"))

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="the extra torch is not installed")

FACTORY = """
import torch

def make_network():
    return torch.nn.Linear(3, 2), torch.ones(1, 3)

def with_loss():
    return torch.nn.Linear(3, 2), lambda batch: torch.ones(batch, 3), lambda output: output.sum()

def only_a_module():
    return torch.nn.Linear(3, 2)

def not_a_module():
    return 5, torch.ones(1, 3)

def crash():
    raise RuntimeError("no data")

SETTING = 3
"""


@pytest.fixture
def factory(tmp_path: Path) -> Path:
    """Write a file with functions that make networks."""
    path = tmp_path / "train.py"
    path.write_text(FACTORY, encoding="utf-8")
    return path


def test_samples_are_repeated_as_often_as_needed() -> None:
    """Two samples make five by going round; named inputs keep their names, other values stay."""
    make_batch = repeat_sample({"x": torch.tensor([[1.0], [2.0]]), "pair": (torch.tensor([7]), "mean")})
    found = make_batch(5)
    assert found["x"].flatten().tolist() == [1, 2, 1, 2, 1]
    assert found["pair"][0].tolist() == [7] * 5
    assert found["pair"][1] == "mean"


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (lambda: torch.tensor(1.0), r"batches: a sample input has the shape \(\); the first dimension counts samples"),
        (lambda: torch.ones(0, 3), r"batches: a sample input has the shape \(0, 3\)"),
        (lambda: 3, "batches: got 3; a tensor, a tuple of tensors or a mapping of them is needed"),
    ],
)
def test_inputs_without_samples_are_refused(sample: Callable[[], object], message: str) -> None:
    """Something has to be there that can be repeated."""
    with pytest.raises(DataError, match=message):
        repeat_sample(sample())


def test_inputs_are_given_as_one_as_several_or_by_name() -> None:
    """A tensor is the argument, a tuple the arguments, a mapping the named arguments."""
    layer = nn.Linear(2, 1)
    inputs = torch.ones(1, 2)
    expected = layer(inputs)
    assert torch.equal(call_module(layer, inputs), expected)
    assert torch.equal(call_module(layer, (inputs,)), expected)
    assert torch.equal(call_module(layer, {"input": inputs}), expected)


def test_the_loss_is_the_outputs_own_or_a_mean_square() -> None:
    """An output's ``loss`` comes first; otherwise every tensor of numbers counts: 4 for twos, 1 for ones."""
    own = torch.tensor(3.0)
    assert mean_square(SimpleNamespace(loss=own)) is own
    assert mean_square({"loss": own, "logits": torch.ones(2)}) is own
    outputs = (torch.full((2, 2), 2.0), {"more": torch.ones(3)}, torch.ones(2, dtype=torch.int64))
    assert mean_square(outputs).item() == 5.0
    with pytest.raises(DataError, match="loss: the module returns 'text', which has no tensor of numbers; give a loss"):
        mean_square("text")


def test_wrong_parts_of_a_workload_are_named() -> None:
    """Module and loss are checked by their kind."""
    with pytest.raises(DataError, match=r"module: got 5; a torch\.nn\.Module is needed"):
        make_workload(5, torch.ones(1))  # type: ignore[arg-type,unused-ignore]
    with pytest.raises(DataError, match="loss: got 5; a function of what the module returns is needed"):
        make_workload(nn.Linear(1, 1), torch.ones(1), 5)  # type: ignore[arg-type]


def test_a_function_of_a_file_makes_the_workload(factory: Path) -> None:
    """Inputs to repeat and a function of the batch are both understood, and so is a loss."""
    workload = load_workload(f"{factory}:make_network")
    assert workload.make_batch(4).shape == (4, 3)
    assert workload.loss is mean_square
    other = load_workload(f"{factory}:with_loss")
    assert other.make_batch(2).shape == (2, 3)
    assert other.loss(torch.ones(3)).item() == 3


def test_a_function_of_an_importable_module_makes_the_workload(factory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are found as ``python -m`` finds them, in the folder at hand, too."""
    factory.rename(factory.with_name("mytraining.py"))
    monkeypatch.chdir(factory.parent)
    before = list(sys.path)
    try:
        assert load_workload("mytraining:make_network").make_batch(2).shape == (2, 3)
    finally:
        sys.modules.pop("mytraining", None)
    assert sys.path == before


@pytest.mark.parametrize("target", ["train.py", "train.py:", ":make", "train.py:make network"])
def test_a_target_of_another_form_is_refused(target: str) -> None:
    """File and function are both needed."""
    with pytest.raises(UsageError, match=r"MODULE:FACTORY: got .*; write where the function is and its name, as in"):
        load_workload(target)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("make_netwrk", r"train\.py has no 'make_netwrk'; did you mean 'make_network'\?"),
        ("SETTING", r"train\.py:SETTING is 3; a class or a function is needed"),
        ("only_a_module", r"only_a_module\(\) returned Linear\(.*\); it has to return \(module, batches\)"),
        ("not_a_module", r"module: got 5; a torch\.nn\.Module is needed"),
        ("crash", "failed with RuntimeError: no data; run it by itself to see where"),
    ],
)
def test_a_function_that_makes_no_workload_is_explained(factory: Path, name: str, message: str) -> None:
    """The message names what was found and what is needed."""
    with pytest.raises(DataError, match=message):
        load_workload(f"{factory}:{name}")


def test_what_cannot_be_imported_is_explained(tmp_path: Path) -> None:
    """A missing file, a missing module and a file with an error in it are told apart."""
    with pytest.raises(DataError, match=r"there is no file missing\.py; give a path from where the command is run"):
        load_workload("missing.py:make")
    with pytest.raises(DataError, match=r"cannot be imported \(No module named 'no_such_module_here'\); is it"):
        load_workload("no_such_module_here:make")
    broken = tmp_path / "broken.py"
    broken.write_text("1 +", encoding="utf-8")
    with pytest.raises(DataError, match="failed with SyntaxError"):
        load_workload(f"{broken}:make")


def test_a_missing_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message holds the command that installs it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r'torch is not installed; run: pip install "optplan\[torch\]"'):
        require_torch()
