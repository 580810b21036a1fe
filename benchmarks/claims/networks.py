"""Networks of Srift's table 4 in plain PyTorch, for images of any size from 64 pixels on; Inception is left out.

Shapes are those of the papers that introduced them; what counts here is what passes cost and what gradients weigh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

CLASSES = 1000


def _conv(inputs: int, outputs: int, size: int = 3, *, stride: int = 1, groups: int = 1, act: bool = True) -> nn.Module:
    """Convolution, batch normalisation and, unless told otherwise, a rectifier."""
    layers = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        *([nn.ReLU()] if act else []),
    ]
    return nn.Sequential(*layers)


class _Residual(nn.Module):
    """A block whose input is added to its output."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, groups: int, *, deep: bool) -> None:
        super().__init__()
        if deep:
            middle = _conv(width, width, stride=stride, groups=groups)
            self.body = nn.Sequential(_conv(inputs, width, 1), middle, _conv(width, outputs, 1, act=False))
        else:
            self.body = nn.Sequential(_conv(inputs, width, stride=stride), _conv(width, outputs, act=False))
        alike = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if alike else _conv(inputs, outputs, 1, stride=stride, act=False)

    def forward(self, x: Tensor) -> Tensor:
        """Add."""
        return torch.relu(self.body(x) + self.skip(x))


def _residual(blocks: Sequence[int], *, deep: bool, width: int = 64, groups: int = 1) -> nn.Module:
    layers: list[nn.Module] = [_conv(3, 64, 7, stride=2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate(blocks):
        outputs = 64 * 2**stage * (4 if deep else 1)
        for number in range(count):
            stride = 2 if stage and not number else 1
            layers.append(_Residual(inputs, width * 2**stage, outputs, stride, groups, deep=deep))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


def _dense(inputs: int) -> list[nn.Module]:
    return [
        nn.Flatten(),
        nn.Linear(inputs, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, CLASSES),
    ]


def alexnet() -> nn.Module:
    """AlexNet: little to compute, much to exchange."""
    shapes = ((64, 192, 5), (192, 384, 3), (384, 256, 3), (256, 256, 3))
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2)]
    for number, (inputs, outputs, size) in enumerate(shapes):
        layers += [nn.Conv2d(inputs, outputs, size, padding=size // 2), nn.ReLU()]
        layers += [nn.MaxPool2d(3, 2)] if number == 0 else []
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(6), *_dense(256 * 36))


def vgg19() -> nn.Module:
    """VGG19: much to compute and much to exchange."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), *_dense(512 * 49))


class _Fire(nn.Module):
    def __init__(self, inputs: int, squeezed: int, outputs: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.one, self.three = nn.Conv2d(squeezed, outputs, 1), nn.Conv2d(squeezed, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Squeeze, then two convolutions side by side."""
        x = torch.relu(self.squeeze(x))
        return torch.relu(torch.cat((self.one(x), self.three(x)), 1))


def squeezenet() -> nn.Module:
    """SqueezeNet 1.1: little of both."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    inputs = 64
    for squeezed, outputs, pooled in (
        (16, 64, False),
        (16, 64, True),
        (32, 128, False),
        (32, 128, True),
        (48, 192, False),
        (48, 192, False),
        (64, 256, False),
        (64, 256, False),
    ):
        layers.append(_Fire(inputs, squeezed, outputs))
        layers += [nn.MaxPool2d(3, 2, ceil_mode=True)] if pooled else []
        inputs = 2 * outputs
    return nn.Sequential(*layers, nn.Conv2d(inputs, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class _Shuffle(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.stride = stride
        own = inputs if stride > 1 else inputs // 2
        self.body = nn.Sequential(
            _conv(own, half, 1), _conv(half, half, stride=stride, groups=half, act=False), _conv(half, half, 1)
        )
        if stride > 1:
            deep = _conv(inputs, inputs, stride=stride, groups=inputs, act=False)
            self.side = nn.Sequential(deep, _conv(inputs, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Split, convolve, and shuffle the channels."""
        left, right = (self.side(x), x) if self.stride > 1 else x.chunk(2, 1)
        x = torch.cat((left, self.body(right)), 1)
        count, channels, height, width = x.shape
        return x.view(count, 2, channels // 2, height, width).transpose(1, 2).reshape(count, channels, height, width)


def shufflenet() -> nn.Module:
    """ShuffleNet v2, twice as wide."""
    layers: list[nn.Module] = [_conv(3, 24, stride=2), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for outputs, count in ((244, 4), (488, 8), (976, 4)):
        for number in range(count):
            layers.append(_Shuffle(inputs, outputs, 2 if number == 0 else 1))
            inputs = outputs
    pooled = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, CLASSES))
    return nn.Sequential(*layers, _conv(inputs, 2048, 1), *pooled)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "AlexNet": alexnet,
    "ResNet18": lambda: _residual((2, 2, 2, 2), deep=False),
    "ResNet50": lambda: _residual((3, 4, 6, 3), deep=True),
    "Vgg19": vgg19,
    "ResNext50": lambda: _residual((3, 4, 6, 3), deep=True, width=128, groups=32),
    "SqueezeNet": squeezenet,
    "ShuffleNet": shufflenet,
}
