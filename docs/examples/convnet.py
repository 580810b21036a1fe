"""A small network for `optplan measure network convnet.py:make_network`; put your own in its place."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def make_network() -> tuple[nn.Module, Callable[[int], Tensor], Callable[[Tensor], Tensor]]:
    """Return a network, what makes its inputs, and its loss."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    return network, make_images, measure_loss


def make_images(batch: int) -> Tensor:
    """Return as many images as are asked for; yours come from a data loader."""
    return torch.randn(batch, 3, 32, 32)


def measure_loss(scores: Tensor) -> Tensor:
    """Return the scalar whose gradients are exchanged."""
    labels = torch.zeros(len(scores), dtype=torch.int64)
    return nn.functional.cross_entropy(scores, labels)
