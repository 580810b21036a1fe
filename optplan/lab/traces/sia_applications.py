"""What is known about the applications and GPU nodes of the Sia and Pollux experiments.

The figures are those of the simulators published with the papers: batch sizes, epochs, rescaling times and slowdown
factors of ``sia-simulator`` (Sia), which extends the simulator of AdaptDL's branch ``osdi21-artifact`` (Pollux).

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP 2023, table 2;
artifact siasosp23/artifacts, commit aaf7a0de7b6cb5eab06ea020467ede5d2fd18e70. The data pack's README, sections 1.2
and 1.4, has the same figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from optplan.errors import DataError, nearest_name_hint


@dataclass(frozen=True)
class Application:
    """One training task.

    ``name`` is also that of its folder of profiles; ``model`` and ``dataset`` are empty where the sources do not say.
    ``rescale_s`` is what a start or a change takes without progress, as Sia has it; Pollux takes 30 s for all.
    ``slowdown`` is the factor by which Sia's cluster was slower than its profiles say; ``pipeline`` says that these are
    of pipeline stages instead of whole steps.
    """

    name: str
    model: str
    dataset: str
    epochs: int
    init_batch_size: int
    max_batch_size: int
    rescale_s: float
    slowdown: float
    pipeline: bool = False


@dataclass(frozen=True)
class GpuNode:
    """One type of machine; ``name`` is the suffix of its profile files, ``profiled_nodes`` the most machines there."""

    name: str
    machine: str
    gpu: str
    gpus_per_node: int
    profiled_nodes: int


#: The applications by name (data README, section 1.4).
APPLICATIONS: Mapping[str, Application] = MappingProxyType(
    {
        facts.name: facts
        for facts in (
            Application("cifar10", "ResNet-18", "CIFAR-10", 100, 128, 4096, 50.0, 1.8),
            Application("bert", "BERT fine-tuning", "SQuAD", 2, 12, 384, 120.0, 1.2),
            Application("deepspeech2", "DeepSpeech2", "CMU-ARCTIC", 80, 20, 640, 25.0, 1.2),
            Application("yolov3", "YOLOv3", "PASCAL-VOC", 50, 8, 512, 80.0, 1.2),
            Application("imagenet", "ResNet-50", "ImageNet-1k", 90, 200, 12800, 250.0, 1.2),
            Application("ncf", "neural collaborative filtering", "", 10, 256, 32768, 15.0, 1.5),
            Application("gpt_pmp", "GPT 2.8B", "", 2, 48, 384, 30.0, 1.0, pipeline=True),
        )
    }
)

#: The profiled machines by suffix (data README, section 1.2).
GPU_NODES: Mapping[str, GpuNode] = MappingProxyType(
    {
        node.name: node
        for node in (
            GpuNode("aws", "g4dn.12xlarge", "T4 16 GB", 4, 16),
            GpuNode("azure", "ND40rs_v2", "V100 32 GB", 8, 5),
            GpuNode("dgx-ext", "DGX-A100", "A100 40 GB", 8, 2),
            GpuNode("rtx", "8x RTX 2080 Ti", "RTX 2080 Ti 11 GB", 8, 3),
            GpuNode("quad", "4x Quadro RTX 6000", "Quadro RTX 6000 24 GB", 4, 1),
        )
    }
)


def application_named(name: str) -> Application:
    """Return what is known about an application."""
    if name not in APPLICATIONS:
        raise DataError("application", f"unknown application {name!r}", nearest_name_hint(name, APPLICATIONS))
    return APPLICATIONS[name]
