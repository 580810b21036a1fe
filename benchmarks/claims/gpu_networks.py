"""Srift's networks as what profiles and trains takes them: a module, and a function that makes batches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from claims.compute_model import GPU
from claims.networks import NETWORKS

_PIXELS, _ = GPU


def _make(name: str) -> Callable[[], tuple[nn.Module, Callable[[int], Tensor]]]:
    return lambda: (NETWORKS[name](), lambda batch: torch.randn(batch, 3, _PIXELS, _PIXELS))


alexnet, resnet18, resnet50 = _make("AlexNet"), _make("ResNet18"), _make("ResNet50")
vgg19, resnext50 = _make("Vgg19"), _make("ResNext50")
squeezenet, shufflenet = _make("SqueezeNet"), _make("ShuffleNet")
