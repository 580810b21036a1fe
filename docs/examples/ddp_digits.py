"""A small network on handwritten digits, trained by as many workers as it is given.

``optplan run plan.json --train ddp_digits.py:Digits --launcher torchrun ...`` starts one process for each worker of a
trial; PyTorch averages their gradients. The global batch stays the same whatever the number of workers, so that the
loss curve goes on unbroken when a trial is resized.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.distributed
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

GLOBAL_BATCH = 256


class Digits:
    """What optplan steps: setup, step, save_checkpoint, load_checkpoint."""

    def setup(self, config: Mapping[str, float]) -> None:
        """Load the data, and build the network that torchrun's workers share."""
        torch.manual_seed(0)
        torch.use_deterministic_algorithms(True)
        digits = load_digits()
        self.images = torch.tensor(digits.data / 16.0, dtype=torch.float64)
        self.labels = torch.tensor(digits.target)
        self.joined = torch.distributed.is_initialized()
        self.rank = torch.distributed.get_rank() if self.joined else 0
        self.workers = torch.distributed.get_world_size() if self.joined else 1
        network = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)).double()
        self.network = DistributedDataParallel(network) if self.joined else network
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=config.get("lr", 0.1), momentum=0.9)
        self.iteration = 0

    def step(self) -> dict[str, float]:
        """Train on one global batch, of which every worker has its part."""
        generator = torch.Generator().manual_seed(self.iteration)
        batch = torch.randint(len(self.images), (GLOBAL_BATCH,), generator=generator)
        own = batch[self.rank :: self.workers]
        loss = nn.functional.cross_entropy(self.network(self.images[own]), self.labels[own])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.iteration += 1
        return {"loss": self.evaluate()}

    def evaluate(self) -> float:
        """Return the mean loss on all images."""
        with torch.no_grad():
            loss = nn.functional.cross_entropy(self.network(self.images), self.labels)
        return float(loss) if math.isfinite(float(loss)) else math.nan

    def save_checkpoint(self, folder: str) -> None:
        """Store everything that the next iteration depends on."""
        state = {
            "network": self.plain_network().state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "iteration": self.iteration,
        }
        torch.save(state, Path(folder) / "state.pt")

    def load_checkpoint(self, folder: str) -> None:
        """Read it, whatever the number of workers that stored it."""
        state = torch.load(Path(folder) / "state.pt", weights_only=True)
        self.plain_network().load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.iteration = state["iteration"]

    def plain_network(self) -> nn.Module:
        """Return the network itself, without what joins it with the other workers'."""
        return self.network.module if self.joined else self.network
