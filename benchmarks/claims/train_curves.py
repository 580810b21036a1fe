"""Train five small tasks for SEER's claims, several hundred configurations each, and keep their validation curves.

Nothing is downloaded: the data are scikit-learn's handwritten digits, the licence text that Python carries, and a
function drawn from a seed.

``digits-mlp``
    Ten classes of 8 x 8 images by a perceptron; SEER's Table 1.
``digits-cnn``
    The same images by a convolution (3 x 3, rectified, pooled 2 x 2) and a linear layer; Table 1.
``teacher``
    Four classes of points in ten dimensions, which a random network tells apart; by a perceptron; Table 1.
``license-chars``
    The next character of Python's licence after five, by an embedding and a linear layer; rates times 3 and sizes of
    the embedding, as section 6.2 has them for text.
``digits-masks``
    Which pixels of a noisy image belong to the digit: mean intersection over union of the two classes; rates divided by
    10, as section 6.2 has them for segmentation.

All are trained by stochastic gradient descent with momentum, weight decay and a plateau schedule: the rate halves after
5 epochs without a better validation (section 6.4). Each has 9 rates x 4 decays x 4 momenta x 2 sizes = 288
configurations, and 2 runs of each. Configurations of one size train together, as one product of matrices. On one core::

    python benchmarks/claims/train_curves.py --date 2026-11-26

A run repeats itself to the last bit on the same machine with the same versions; other products of matrices round
otherwise, and curves at the edge of stability amplify that.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import platform
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

HERE = Path(__file__).resolve().parent / "curves"
RATES = (1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0)
DECAYS = (0.0001, 0.0005, 0.001, 0.005)
MOMENTA = (0.9, 0.95, 0.99, 0.997)
EPOCHS, RUNS, BATCH = 128, 2, 100
#: Epochs without a better validation after which the rate halves.
PATIENCE = 5
#: Seed of data and splits; run r draws its weights and orders from seed r.
DATA_SEED = 0
CONTEXT = 5
NOISE = 0.7
#: What a validation of 1 is stored as where it is no count of examples.
FINE = 10_000


@dataclass(frozen=True)
class Data:
    """Inputs (n, ...) and targets of training and validation, and how validation is counted."""

    train: Tensor
    train_targets: Tensor
    held: Tensor
    held_targets: Tensor
    outputs: int
    said: str
    masks: bool = False

    @property
    def scale(self) -> int:
        """What a perfect validation is stored as."""
        return FINE if self.masks else len(self.held)


@dataclass(frozen=True)
class Task:
    """What is trained: which data, times the rates of Table 1, sizes of the hidden layer, and whether it convolves."""

    data: str
    rates: float
    sizes: tuple[int, int]
    network: str
    convolves: bool = False

    @property
    def hyperparameters(self) -> dict[str, tuple[float, ...]]:
        """Values of each; the last one varies fastest among the configurations."""
        rates = tuple(float(f"{rate * self.rates:g}") for rate in RATES)
        return {"size": self.sizes, "learning_rate": rates, "weight_decay": DECAYS, "momentum": MOMENTA}


TASKS = {
    "digits-mlp": Task("digits", 1.0, (4, 8), "perceptron 64-size-10"),
    "digits-cnn": Task("digits", 1.0, (2, 4), "size filters of 3 x 3, pooled 2 x 2, linear to 10", convolves=True),
    "teacher": Task("teacher", 1.0, (8, 24), "perceptron 10-size-4"),
    "license-chars": Task(
        "chars", 3.0, (8, 24), "embedding of five characters in size units, linear to all characters"
    ),
    "digits-masks": Task("masks", 0.1, (8, 24), "perceptron 64-size-64"),
}


def load_images() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return 1,300 images from 0 to 1, classes, and which are trained on: the first 500."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = np.random.default_rng(DATA_SEED).permutation(len(digits.target))[:1300]
    return (digits.data[chosen] / 16.0).astype(np.float32), digits.target[chosen], np.arange(1300) < 500


def make_digits() -> Data:
    """Classes of images, less the mean of training."""
    images, classes, trained = load_images()
    images -= images[trained].mean(axis=0)
    return split(images, classes, trained, 10, "scikit-learn's digits, 500 images to train, 800 to validate")


def make_masks() -> Data:
    """Which pixels are bright in the clean image, from one with normal noise."""
    images, _, trained = load_images()
    noisy = images + NOISE * np.random.default_rng(DATA_SEED).standard_normal(images.shape).astype(np.float32)
    said = f"scikit-learn's digits with noise of {NOISE} of the brightest, 500 images to train, 800 to validate"
    return split(noisy - noisy[trained].mean(axis=0), (images > 0.5).astype(np.float32), trained, 64, said, masks=True)


def make_teacher() -> Data:
    """Classes that a random network with 12 hidden units gives points of a normal distribution."""
    rng = np.random.default_rng(DATA_SEED)
    points = rng.standard_normal((1700, 10)).astype(np.float32)
    first, last = rng.standard_normal((10, 12)), rng.standard_normal((12, 4))
    shown = np.tanh(1.5 * points @ first) @ last
    said = "points in ten dimensions, classes by a random network, 700 to train, 1,000 to validate"
    return split(points, (shown - shown.mean(axis=0)).argmax(axis=1), np.arange(1700) < 700, 4, said)


def make_chars() -> Data:
    """Windows of the licence: five characters, and the next one; trained on the first four fifths of the text."""
    text, sha = read_license()
    letters = sorted(set(text))
    codes = np.array([letters.index(each) for each in text])
    starts = np.arange(len(codes) - CONTEXT)
    rng = np.random.default_rng(DATA_SEED)
    early = rng.permutation(starts[: len(codes) * 4 // 5 - CONTEXT])[:1000]
    late = rng.permutation(starts[len(codes) * 4 // 5 :])[:1000]
    chosen = np.concatenate([early, late])
    windows = codes[chosen[:, None] + np.arange(CONTEXT)]
    shown = np.eye(len(letters), dtype=np.float32)[windows].reshape(len(chosen), -1)
    said = f"Python's licence (sha256 {sha[:12]}), 1,000 windows to train, 1,000 of the last fifth to validate"
    return split(shown, codes[chosen + CONTEXT], np.arange(len(chosen)) < len(early), len(letters), said)


def read_license() -> tuple[str, str]:
    """Return Python's licence in small letters, runs of blanks as one, and its hash."""
    prefix = Path(sys.base_prefix) / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "LICENSE.txt"
    text = re.sub(r"[\s=\-_.]+", " ", prefix.read_text(encoding="utf-8").lower())
    return text, hashlib.sha256(text.encode()).hexdigest()


def split(
    shown: np.ndarray, targets: np.ndarray, trained: np.ndarray, outputs: int, said: str, *, masks: bool = False
) -> Data:
    """Divide examples."""
    parts = [
        torch.from_numpy(np.ascontiguousarray(each))
        for chosen in (trained, ~trained)
        for each in (shown[chosen], targets[chosen])
    ]
    return Data(*parts, outputs=outputs, said=said, masks=masks)


MAKERS = {"digits": make_digits, "teacher": make_teacher, "chars": make_chars, "masks": make_masks}


class Networks:
    """Networks of one size, a configuration each, that meet the same examples in the same order.

    ``settings`` are (C, 3): learning rate, weight decay, momentum. Weights of a layer are drawn once, with variance 2 /
    inputs, and are the same for all configurations.
    """

    def __init__(self, task: Task, data: Data, size: int, settings: Tensor, run: int) -> None:
        self.task, self.data, self.size, self.count = task, data, size, len(settings)
        self.rate, self.decay, self.momentum = (settings[:, each].clone() for each in range(3))
        torch.manual_seed(run)
        inputs = 9 if task.convolves else data.train.shape[1]
        middle = 9 * size if task.convolves else size
        drawn = [(inputs, size), (middle, data.outputs)]
        self.weights = []
        for entering, leaving in drawn:
            one = torch.randn(entering, leaving) * (2 / entering) ** 0.5
            self.weights += [one.repeat(self.count, 1, 1), torch.zeros(self.count, 1, leaving)]
        for each in self.weights:
            each.requires_grad_()
        self.speeds = [torch.zeros_like(each) for each in self.weights]

    def answer(self, shown: Tensor) -> Tensor:
        """Return outputs (C, n, outputs)."""
        first, offset, last, last_offset = self.weights
        flat = first.permute(1, 0, 2).reshape(first.shape[1], -1)
        if self.task.convolves:
            images = shown.reshape(-1, 8, 8).unfold(1, 3, 1).unfold(2, 3, 1).reshape(-1, 9)
            seen = (images @ flat + offset.reshape(1, -1)).relu().reshape(len(shown), 3, 2, 3, 2, self.count, self.size)
            hidden = seen.amax(dim=(2, 4)).permute(3, 0, 1, 2, 4).reshape(self.count, len(shown), -1)
        else:
            hidden = (shown @ flat + offset.reshape(1, -1)).relu().reshape(len(shown), self.count, -1).transpose(0, 1)
        return torch.baddbmm(last_offset, hidden, last)

    def step(self, shown: Tensor, targets: Tensor) -> None:
        """Take one step; the losses of configurations are added, so that each has its own gradient."""
        outputs = self.answer(shown)
        if self.data.masks:
            wanted = targets.expand_as(outputs)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(outputs, wanted, reduction="sum")
        else:
            every = targets.repeat(self.count)
            loss = torch.nn.functional.cross_entropy(outputs.reshape(len(every), -1), every, reduction="sum")
        slopes = torch.autograd.grad(loss / len(shown), self.weights)
        shape = (-1, 1, 1)
        with torch.no_grad():
            for weights, slope, speed in zip(self.weights, slopes, self.speeds, strict=True):
                speed.mul_(self.momentum.view(shape)).add_(slope).addcmul_(weights, self.decay.view(shape))
                weights.addcmul_(speed, self.rate.view(shape), value=-1)

    @torch.no_grad()
    def validate(self) -> Tensor:
        """Return (C,) what validation counts: examples classified well, or the mean intersection over union."""
        counted = []
        for some in torch.arange(len(self.data.held)).split(400):
            outputs, targets = self.answer(self.data.held[some]), self.data.held_targets[some]
            if not self.data.masks:
                counted.append((outputs.argmax(dim=2) == targets).sum(dim=1).unsqueeze(1))
                continue
            said, true = outputs > 0, targets > 0
            both, either = (said & true).sum(dim=(1, 2)), (said | true).sum(dim=(1, 2))
            counted.append(
                torch.stack(
                    [
                        both,
                        either,
                        (said | true).logical_not().sum(dim=(1, 2)),
                        (said & true).logical_not().sum(dim=(1, 2)),
                    ],
                    1,
                )
            )
        total = torch.stack(counted).sum(dim=0).double()
        if not self.data.masks:
            return total[:, 0]
        return ((total[:, 0] / total[:, 1] + total[:, 2] / total[:, 3]) / 2 * FINE).round()


def train(task: Task, data: Data, size: int, run: int, epochs: int) -> np.ndarray:
    """Train all configurations of a size in one run; return (C, epochs) of what validation counts."""
    settings = torch.tensor(list(itertools.product(*list(task.hyperparameters.values())[1:])), dtype=torch.float32)
    networks = Networks(task, data, size, settings, run)
    order = torch.Generator().manual_seed(run)
    best, since = torch.full((len(settings),), -1.0, dtype=torch.float64), torch.zeros(len(settings))
    counts = []
    for _ in range(epochs):
        for some in torch.randperm(len(data.train), generator=order).split(BATCH):
            networks.step(data.train[some], data.train_targets[some])
        counts.append(networks.validate())
        since = torch.where(counts[-1] > best, 0.0, since + 1)
        best = torch.maximum(best, counts[-1])
        networks.rate = torch.where(since >= PATIENCE, networks.rate / 2, networks.rate)
        since = torch.where(since >= PATIENCE, 0.0, since)
    return torch.stack(counts, dim=1).numpy().astype(np.int32)


def write_task(name: str, *, date: str, epochs: int, runs: int, out: Path) -> None:
    """Train one task; write its curves, and how they were made."""
    task, started = TASKS[name], time.process_time()
    data = MAKERS[task.data]()
    counts = np.stack(
        [np.concatenate([train(task, data, size, run, epochs) for size in task.sizes]) for run in range(1, runs + 1)],
        axis=1,
    )
    minutes = (time.process_time() - started) / 60
    steps = np.diff(counts, axis=2, prepend=0).astype(np.int16)
    np.savez_compressed(out / f"{name}.npz", correct_steps=steps)
    rows = np.array(list(itertools.product(*task.hyperparameters.values())))
    told = {
        "name": name,
        "hyperparameters": dict(zip(task.hyperparameters, rows.T.tolist(), strict=True)),
        "seeds": list(range(1, runs + 1)),
        "epochs": epochs,
        "validation_examples": data.scale,
        "start": float(np.median(counts[:, :, 0].min(axis=0)) / data.scale),
        "source": {
            "data": data.said,
            "network": task.network,
            "training": f"batches of {BATCH}, momentum, weight decay, rate halved after {PATIENCE} epochs without gain",
            "versions": f"torch {torch.__version__}, NumPy {np.__version__}, Python {platform.python_version()}",
            "script": "benchmarks/claims/train_curves.py",
            "sha256": hashlib.sha256(steps.tobytes()).hexdigest(),
            "date": date,
            "processor minutes": f"{minutes:.1f}",
        },
    }
    (out / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    last = counts[:, :, -1].mean(axis=1) / data.scale
    print(f"{name}: {minutes:.1f} min, {(out / f'{name}.npz').stat().st_size // 1024} KB", flush=True)
    print("  last, mean over runs, least to most:", np.quantile(last, (0, 0.25, 0.5, 0.75, 0.9, 1)).round(3))
    print(
        "  most after 1, 4, 16, 64 epochs:",
        [round(float(counts[:, :, :e].max() / data.scale), 3) for e in (1, 4, 16, 64, epochs)],
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=sorted(TASKS), action="append", help="this one; may be repeated")
    parser.add_argument("--date", required=True, help="date recorded with the tables")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--out", type=Path, default=HERE)
    told = parser.parse_args(arguments)
    torch.set_num_threads(1)
    told.out.mkdir(parents=True, exist_ok=True)
    for name in told.task or TASKS:
        write_task(name, date=told.date, epochs=told.epochs, runs=told.runs, out=told.out)


if __name__ == "__main__":
    main()
