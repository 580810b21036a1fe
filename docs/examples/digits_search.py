"""A small network on handwritten digits, as a search trains it: scikit-learn, one pass over the data an iteration."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

#: Images that are trained on; the others say how good a trial is.
TRAINED = 1200
CLASSES = np.arange(10)


class Digits:
    """What optplan steps: setup, step, save_checkpoint, load_checkpoint."""

    def setup(self, config: Mapping[str, float]) -> None:
        """Load the data, and make the network of a configuration."""
        digits = load_digits()
        order = np.random.default_rng(0).permutation(len(digits.data))
        self.images, self.labels = digits.data[order] / 16.0, digits.target[order]
        self.network = MLPClassifier(
            hidden_layer_sizes=(int(config["hidden"]),),
            learning_rate_init=config["rate"],
            alpha=config["decay"],
            batch_size=64,
            random_state=0,
        )

    def step(self) -> dict[str, float]:
        """Pass over the training images once, and look at the others."""
        self.network.partial_fit(self.images[:TRAINED], self.labels[:TRAINED], classes=CLASSES)
        shown = self.network.predict_proba(self.images[TRAINED:])
        right = shown.argmax(axis=1) == self.labels[TRAINED:]
        return {"loss": float(log_loss(self.labels[TRAINED:], shown)), "accuracy": float(right.mean())}

    def save_checkpoint(self, folder: str) -> None:
        """Store the network with its optimiser."""
        Path(folder, "network.pickle").write_bytes(pickle.dumps(self.network))

    def load_checkpoint(self, folder: str) -> None:
        """Read them: our own file, so that unpickling it is safe."""
        self.network = pickle.loads(Path(folder, "network.pickle").read_bytes())
