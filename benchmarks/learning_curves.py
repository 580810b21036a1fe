"""Train the configurations of SEER's search spaces on real data, and write their learning curves into the library.

The data are scikit-learn's handwritten digits (1,797 images of 8 x 8 pixels, ten classes), which it ships: nothing is
downloaded. Each configuration is a multilayer perceptron with rectified units, trained by stochastic gradient descent
with momentum and weight decay, constant learning rate and fixed batch size; after each epoch it is validated on all
images that are not used for training. Networks are kept narrow and training sets small on purpose: then few
configurations tie. The set-up for Table 1 was chosen among fifteen, that for the low rates among three, by ties, spread
and rank correlations after 100 to 250 epochs, before any search had been run on them; for the embedding one was tried.

Three tables, one for each search space of SEER's section 6.2 (Table 1 and what the text changes in it):

``digits``
    Table 1: learning rate 9 x weight decay 4 x momentum 4 = 144 configurations.
``digits-low-rates``
    The space of the segmentation benchmarks, learning rates divided by 10, on a deeper network. scikit-learn ships no
    segmentation data: the task is the same classification.
``digits-embedding``
    The space of the text benchmarks, learning rates times 3 and five embedding sizes: 720 configurations.
    scikit-learn ships no text: the embedding size is the width of the first layer, which embeds the pixels.

The same seed gives all configurations of a table the same initial weights (of equal shape) and the same order of
images. A run is repeated to the last bit on the same machine with the same NumPy; another BLAS rounds otherwise, and
curves at the edge of stability amplify that. Needs NumPy and scikit-learn, and neither optplan nor a GPU::

    python benchmarks/learning_curves.py --date 2026-11-21

``--scaling FOLDER`` writes, instead of curves, how training scales with GPUs, from the public data there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Networks are small: more than one thread would cost more than it brings. NumPy reads this when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

LIBRARY = Path(__file__).resolve().parent / "suites" / "curves"
PROFILES = "hypersched/scaling_profiles.json"
PAPER = "SEER: Elastic hyperparameter tuning on the cloud (SoCC 2021)"

#: Table 1 of the paper.
LEARNING_RATES = (1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0)
WEIGHT_DECAYS = (0.0001, 0.0005, 0.001, 0.005)
MOMENTA = (0.9, 0.95, 0.99, 0.997)
#: Section 6.2, text classification.
EMBEDDING_SIZES = (8, 16, 32, 64, 128)

#: An epoch a minute on one GPU: 60 min on 8 GPUs of a ResNet18 are 324 epochs, the longest run of figure 4.
EPOCHS = 330
SEEDS = 3
CLASSES = 10
#: Seeds of the split and, plus the number of the run, of weights and orders.
SPLIT_SEED = 0
FIRST_SEED = 1
#: Networks that are validated at once, which limits the memory.
VALIDATED_TOGETHER = 36
#: Significant digits that the library keeps of a relative throughput.
DIGITS = 6
#: Epochs between which the report compares ranks, and the best configurations among which it also does.
COMPARED_EPOCHS = (10, 50, 250)
BEST_QUARTER = 0.25

Floats = NDArray[np.float32]
Counts = NDArray[np.uint16]


@dataclass(frozen=True)
class Task:
    """What is trained for one table.

    Attributes
    ----------
    space
        Which search space of the paper.
    rates
        Learning rates.
    hidden
        Units of the hidden layers.
    batch_size
        Images per step.
    embedding_sizes
        Units of a layer before the hidden ones, a further hyperparameter; empty for none.
    train_per_class
        Images of each class that are trained on; all others validate.
    """

    space: str
    rates: tuple[float, ...]
    hidden: tuple[int, ...]
    batch_size: int
    embedding_sizes: tuple[int, ...] = ()
    train_per_class: int = 50

    @property
    def hyperparameters(self) -> dict[str, tuple[float, ...]]:
        """Values of each hyperparameter; the last one varies fastest among the configurations."""
        embedding = {"embedding_size": self.embedding_sizes} if self.embedding_sizes else {}
        return {**embedding, "learning_rate": self.rates, "weight_decay": WEIGHT_DECAYS, "momentum": MOMENTA}


TASKS = {
    "digits": Task("Table 1", LEARNING_RATES, (8, 8), 50),
    "digits-low-rates": Task(
        "segmentation (6.2): Table 1 with learning rates divided by 10",
        tuple(float(f"{rate / 10:g}") for rate in LEARNING_RATES),
        (8, 8, 8),
        20,
    ),
    "digits-embedding": Task(
        "text classification (6.2): Table 1 with learning rates times 3, and embedding sizes",
        tuple(float(f"{rate * 3:g}") for rate in LEARNING_RATES),
        (8,),
        50,
        EMBEDDING_SIZES,
    ),
}


@dataclass(frozen=True)
class Split:
    """Images (n, pixels), from 0 to 1 less their mean in training, and their classes (n,)."""

    train_images: Floats
    train_classes: NDArray[np.int64]
    images: Floats
    classes: NDArray[np.int64]


class Networks:
    """Perceptrons of one shape, all trained at once: configurations by seeds.

    Parameters
    ----------
    sizes
        Units of each layer, input and output included.
    settings
        (C, 3) Learning rate, weight decay, momentum.
    generators
        One per seed; they draw the initial weights (normal, variance 2 / inputs) and later the order of images.
    """

    def __init__(self, sizes: tuple[int, ...], settings: Floats, generators: list[np.random.Generator]) -> None:
        self.rate, self.decay, self.momentum = (settings[:, i, None, None, None] for i in range(3))
        self.parameters: list[Floats] = []
        for inputs, outputs in itertools.pairwise(sizes):
            drawn = np.stack([rng.standard_normal((inputs, outputs)) for rng in generators]) * np.sqrt(2 / inputs)
            self.parameters.append(np.repeat(drawn[None].astype(np.float32), len(settings), axis=0))
            self.parameters.append(np.zeros((len(settings), len(generators), 1, outputs), dtype=np.float32))
        self.velocities = [np.zeros_like(each) for each in self.parameters]

    def step(self, images: Floats, classes: NDArray[np.int64]) -> None:
        """Take one step on the batches of each seed, (S, batch, pixels) and (S, batch)."""
        layers = [images[None]]
        *hidden, (last_weights, last_offsets) = self._pairs()
        for weights, offsets in hidden:
            layers.append(np.maximum(layers[-1] @ weights + offsets, 0))
        logits = layers[-1] @ last_weights + last_offsets
        slope = np.exp(logits - logits.max(axis=-1, keepdims=True))
        slope /= slope.sum(axis=-1, keepdims=True)
        seeds, batch = classes.shape
        slope[:, np.arange(seeds)[:, None], np.arange(batch), classes] -= 1
        slope /= batch
        gradients: list[Floats] = []
        for layer in reversed(range(len(layers))):
            gradients += [slope.sum(axis=-2, keepdims=True), np.swapaxes(layers[layer], -1, -2) @ slope]
            if layer:
                slope = (slope @ np.swapaxes(self.parameters[2 * layer], -1, -2)) * (layers[layer] > 0)
        self._descend(gradients[::-1])

    def _pairs(self) -> Iterator[tuple[Floats, Floats]]:
        return zip(self.parameters[::2], self.parameters[1::2], strict=True)

    def _descend(self, gradients: list[Floats]) -> None:
        """Momentum and weight decay as common libraries define them: v = m v + (g + d w), w = w - r v."""
        for number, gradient in enumerate(gradients):
            gradient += self.decay * self.parameters[number]  # noqa: PLW2901 - in place
            self.velocities[number] *= self.momentum
            self.velocities[number] += gradient
            self.parameters[number] -= self.rate * self.velocities[number]

    def validate(self, images: Floats, classes: NDArray[np.int64]) -> Counts:
        """Return the number of images classified correctly, (C, S).

        A network whose outputs are no numbers any more takes the first of these classes.
        """
        shape = self.parameters[0].shape[:2]
        correct = np.empty(shape, dtype=np.uint16)
        for start in range(0, shape[0], VALIDATED_TOGETHER):
            some = slice(start, start + VALIDATED_TOGETHER)
            outputs = images
            for layer, (weights, offsets) in enumerate(self._pairs()):
                outputs = (np.maximum(outputs, 0) if layer else outputs) @ weights[some] + offsets[some]
            correct[some] = (outputs.argmax(axis=-1) == classes).sum(axis=-1)
        return correct


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=sorted(TASKS), action="append", help="this one; may be repeated")
    parser.add_argument("--date", required=True, help="date recorded with the tables")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=LIBRARY, help="folder to write to; the library's otherwise")
    parser.add_argument("--scaling", type=Path, metavar="FOLDER", help="write the scaling table from the public data")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.scaling:
        write_json(arguments.out / "scaling.json", derive_scaling(arguments.scaling, arguments.date))
        return
    for name in arguments.table or TASKS:
        write_table(name, arguments)


def write_table(name: str, arguments: argparse.Namespace) -> None:
    """Train one table's configurations; write curves and provenance."""
    task, split = TASKS[name], split_digits(TASKS[name])
    seeds = [FIRST_SEED + number for number in range(arguments.seeds)]
    start = time.perf_counter()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # runs that diverge
        correct = train_task(task, split, seeds, arguments.epochs)
    minutes = (time.perf_counter() - start) / 60
    data = np.array(list(itertools.product(*task.hyperparameters.values())))
    # Differences from epoch to epoch are small, and compress to half of what the counts would.
    steps = np.diff(correct.astype(np.int16), axis=2, prepend=np.int16(0))
    np.savez_compressed(arguments.out / f"{name}.npz", correct_steps=steps)
    measured = describe_curves(correct / len(split.classes))
    provenance = {
        "name": name,
        "description": f"Validation of {len(data)} configurations after each epoch: {task.space}.",
        "hyperparameters": dict(zip(task.hyperparameters, data.T.tolist(), strict=True)),
        "seeds": seeds,
        "epochs": arguments.epochs,
        "validation_examples": len(split.classes),
        "source": describe_training(task, split) | {"date": arguments.date, "minutes": f"{minutes:.1f}"},
        "measured": measured,
    }
    write_json(arguments.out / f"{name}.json", provenance)
    size = (arguments.out / f"{name}.npz").stat().st_size
    print(f"{name}: {minutes:.1f} min, {size / 1024:.0f} KB", json.dumps(measured, indent=1))


def split_digits(task: Task) -> Split:
    """Split the digits: so many of each class, drawn at random, are trained on."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    classes = digits.target.astype(np.int64)
    rng = np.random.default_rng(SPLIT_SEED)
    drawn = [rng.permutation(np.flatnonzero(classes == each))[: task.train_per_class] for each in range(CLASSES)]
    trained = np.isin(np.arange(len(classes)), np.concatenate(drawn))
    images = (digits.data / 16.0).astype(np.float32)
    images -= images[trained].mean(axis=0)
    return Split(images[trained], classes[trained], images[~trained], classes[~trained])


def train_task(task: Task, split: Split, seeds: list[int], epochs: int) -> Counts:
    """Train all configurations; return correct validation images, (C, S, epochs)."""
    settings = np.array(list(itertools.product(task.rates, WEIGHT_DECAYS, MOMENTA)), dtype=np.float32)
    parts = []
    for width in task.embedding_sizes or (None,):
        hidden = task.hidden if width is None else (width, *task.hidden)
        sizes = (split.images.shape[1], *hidden, CLASSES)
        generators = [np.random.default_rng(seed) for seed in seeds]
        parts.append(train_networks(Networks(sizes, settings, generators), split, task.batch_size, epochs, generators))
        print(f"trained {len(settings)} x {len(seeds)} networks {'-'.join(map(str, sizes))}")
    return np.concatenate(parts)


def train_networks(
    networks: Networks, split: Split, batch_size: int, epochs: int, generators: list[np.random.Generator]
) -> Counts:
    """Train for some epochs, validating after each; return correct validation images, (C, S, epochs)."""
    correct = []
    count = len(split.train_classes)
    for _ in range(epochs):
        orders = np.stack([rng.permutation(count) for rng in generators])
        for start in range(0, count, batch_size):
            chosen = orders[:, start : start + batch_size]
            networks.step(split.train_images[chosen], split.train_classes[chosen])
        correct.append(networks.validate(split.images, split.classes))
    return np.stack(correct, axis=2)


def describe_training(task: Task, split: Split) -> dict[str, str]:
    """Say how a table was made."""
    import sklearn

    units = "-".join(map(str, (split.images.shape[1], *(("embedding size",) if task.embedding_sizes else ()))))
    return {
        "search space": f"{PAPER}, {task.space}",
        "data": "handwritten digits as shipped with scikit-learn (load_digits; UCI, Alpaydin and Kaynak 1998), "
        f"{len(split.train_classes)} images to train, {task.train_per_class} of each class, drawn with seed "
        f"{SPLIT_SEED}, {len(split.classes)} to validate; labels as they are",
        "network": f"perceptron {units}-{'-'.join(map(str, task.hidden))}-{CLASSES}, rectified units, softmax",
        "training": f"stochastic gradient descent with momentum and weight decay, batches of {task.batch_size}, "
        "constant learning rate, single precision",
        "failed runs": "a network whose outputs are no numbers any more answers with the first of them",
        "rounding": "accuracy exact",
        "versions": f"NumPy {np.__version__}, scikit-learn {sklearn.__version__}, Python {platform.python_version()}",
        "script": "benchmarks/learning_curves.py",
    }


def describe_curves(accuracy: NDArray[np.float64]) -> dict[str, Any]:
    """Measure how far the configurations of (C, S, E) accuracies differ, and how stable their ranking is.

    Rank correlations are Spearman's, means over the seeds or pairs of seeds; those of the best quarter are among the
    configurations with the best mean over the seeds after the last epoch.
    """
    last = accuracy[:, :, -1]
    mean = last.mean(axis=1)
    order = np.argsort(-mean, kind="stable")
    best = order[: max(2, round(BEST_QUARTER * len(order)))]
    seeds = range(accuracy.shape[1])
    pairs = list(itertools.combinations(seeds, 2))
    marks = [mark for mark in COMPARED_EPOCHS if mark <= accuracy.shape[2]]
    ranks = {
        f"epochs {a} and {b}": [
            round(float(np.mean([correlate(accuracy[rows, s, a - 1], accuracy[rows, s, b - 1]) for s in seeds])), 3)
            for rows in (order, best)
        ]
        for a, b in itertools.combinations(marks, 2)
    }
    if pairs:
        ranks["seeds"] = [
            round(float(np.mean([correlate(last[rows, a], last[rows, b]) for a, b in pairs])), 3)
            for rows in (order, best)
        ]
    quantiles = np.quantile(mean, (0.0, 0.25, 0.5, 0.75, 1.0))
    return {
        "last accuracy, mean over seeds: least, quartiles, most": [round(float(each), 4) for each in quantiles],
        "configurations within 0.0025, 0.005, 0.01 and 0.02 of the best": [
            int((mean >= mean.max() - margin).sum()) for margin in (0.0025, 0.005, 0.01, 0.02)
        ],
        "configurations that tie with the best of their seed": [
            int((last[:, s] == last[:, s].max()).sum()) for s in seeds
        ],
        "distinct last accuracies by seed": [len(np.unique(last[:, s])) for s in seeds],
        "configurations below 0.15": int((mean < 0.15).sum()),
        "standard deviation between seeds, median of the best quarter": round(
            float(np.median(last[best].std(axis=1, ddof=1))) if pairs else 0.0, 4
        ),
        "rank correlations, all and best quarter": ranks,
    }


def correlate(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation, ties sharing their mean rank."""
    return float(np.corrcoef(rank(left), rank(right))[0, 1])


def rank(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks from the least on, ties sharing their mean."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[group]


def derive_scaling(data: Path, date: str) -> dict[str, Any]:
    """Derive the scaling table: the models that were measured on GPUs."""
    profiles = json.loads((data / PROFILES).read_text(encoding="utf-8"))
    profiled = {
        f"{model}-{dataset}": {
            "hardware": profiles[dataset]["hardware"],
            "gpus": [int(gpus) for gpus in throughput],
            "throughput": [float(f"{relative:.{DIGITS}g}") for relative in throughput.values()],
        }
        for dataset in ("cifar10", "imagenet")
        for model, throughput in profiles[dataset]["throughput"].items()
    }
    return {
        "source": {
            "figures": "throughput relative to one GPU, from literals in HyperSched's source (ucbrise/hypersched, "
            f"commit 8b5435efa881eb68fdade102babb4e07e505fdd8), {DIGITS} digits; {PROFILES} of the public data",
            "left out": "the model on CPU workers, and the shapes that were made up",
            "licence": "none found at the source; figures only",
            "date": date,
            "script": "benchmarks/learning_curves.py",
        },
        "profiles": profiled,
    }


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write plain data, a line for each field of the first two levels."""
    lines = []
    for key, value in data.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
