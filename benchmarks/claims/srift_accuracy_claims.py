"""The claims of Srift about how far predictions are off: tables 5 and 6, figure 7, sections 4.1, 4.2 and 5.3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from claims.charts import Axis, Line, draw
from claims.record import REACHED, Chart, Claim, Rows, Verdict, judge_all, not_run
from claims.tables import write_table

RANKS = (
    "Three small networks at batches of 4 to 64 a rank, DistributedDataParallel over gloo on two ranks of one thread "
    "each, which "
    "share two idle cores and their memory (21 November 2026, medians of five runs); the profile, the probe and the "
    "training ran on both ranks at once. The paper has one GPU for each rank and a network between them"
)
#: The part with 2, 4 and 8 ranks, each behind a link of limited rate.
SHAPED = "table 5 on shaped links"
CPUS = (
    "One thread of a CPU in processor time, images of 64 pixels, profiles at batches of 1, 5, 11 and 16, predictions "
    "at 1, 2, 4, 8 "
    "and 16, medians of four passes. The paper has GPUs, images of ImageNet's size and batches of up to 8,192"
)
GPUS = "`make bench-gpu` on the GPUs of one machine: images of 224 pixels, batches of up to 64 a GPU"
_ONE_GPU = (
    "`make bench-gpu` on one {device} with PyTorch {torch}: images of 224 pixels, predictions at powers of two from "
    "batches of one up to {largest}, profiles at four batches, medians of five passes. The paper has the M60, the T4 "
    "and the V100, and batches of up to 8,192"
)
CLOUD = "A grid of all-reduces on EC2, on up to 64 VMs, which this project cannot rent"
MODEL = "What the paper describes, beside what this project does"
_ON_CPU = "on a CPU"
_WAITS = "It needs GPUs: `make bench-gpu` measures it where there are, in under 10 minutes."
_MORE = "It needs GPUs on several VMs of that type, which one machine has not."
#: Table 5, in percent; a whole number of ranks is one of `make bench-gpu`.
_NETWORKS5 = {
    "AlexNet": 11.1,
    "ResNet18": 7.7,
    "ResNet50": 7.6,
    "Vgg19": 11.1,
    "ResNext50": 9.4,
    "SqueezeNet": 10.7,
    "ShuffleNet": 6.0,
    "Inception": 7.7,
}
_VMS5 = {"g3.8xlarge": 8.0, "p3.8xlarge": 8.6, "g4dn.8xlarge": 9.3, "g4dn.2xlarge": 10.1}
_WORLDS5 = {"2": 8.8, "4": 8.6, "8": 7.5, "16": 8.6, "32": 8.1, "64": 10.7}
#: Parts of the compute model, and table 6 in percent: forward, backward, both. Inception is not among the networks.
TABLE6 = "table 6, "
_TABLE6 = {
    "AlexNet": (8.0, 4.5, 3.9),
    "ResNet18": (7.7, 3.9, 3.1),
    "ResNet50": (5.6, 4.0, 3.0),
    "Vgg19": (9.8, 3.0, 3.6),
    "ResNext50": (5.5, 2.3, 2.4),
    "SqueezeNet": (6.5, 9.5, 5.1),
    "ShuffleNet": (10.1, 8.6, 8.0),
    "Inception": (4.6, 6.8, 5.4),
}
NETWORKS6 = tuple(name for name in _TABLE6 if name != "Inception")
_GPUS6 = {"Tesla M60": (6.5, 3.3, 2.6), "Tesla T4": (7.9, 5.2, 4.3), "Tesla V100": (8.4, 7.9, 6.2)}
_OVERALL6 = {"forward": 7.6, "backward": 5.5, "both": 4.4}
_WORDS = {"forward": "forward passes", "backward": "backward passes", "both": "whole iterations"}
_SHARE_UNDER, _NINETIETH = 61.3, 13.5


def list_accuracy_claims(rows: Rows) -> list[Claim]:
    """List the claims."""
    parts = (_on_average, _on_table5, _on_figure7, _on_compute, _on_table6, _on_bandwidth)
    return [claim for part in parts for claim in part(rows)]


def _judge_error(here: float, paper: float) -> Verdict:
    """Judge an error in percent, of which less is better; up to twice the paper's it holds in part."""
    return Verdict.HOLDS if here * REACHED <= paper else Verdict.IN_PART if here <= 2 * paper else Verdict.NOT


def _errors(rows: Rows, key: str = "predicted_s") -> dict[str, list[float]]:
    """Return by network how far predictions of whole iterations are from measurements, in percent."""
    networks = rows["table 5 on CPUs"]["networks"]
    return {name: [100 * (row[key] / row["measured_s"] - 1) for row in each] for name, each in networks.items()}


def _on_average(rows: Rows) -> Iterator[Claim]:
    says = "predicted iterations are off by, on average"
    if "table 5 on CPUs" not in rows:
        yield not_run("abstract, 5.3, table 5", says, "8.6, 8.9 or 9 %", RANKS)
        return
    found = _errors(rows)
    mean = fmean(abs(each) for one in found.values() for each in one)
    by_network = ", ".join(f"{name} {fmean(map(abs, one)):.0f} %" for name, one in found.items())
    layers = fmean(abs(each) for one in _errors(rows, "predicted_layerwise_s").values() for each in one)
    why = (
        f"{by_network}; {layers:.1f} % layer by layer, as the paper predicts: ranks that share memory disturb one "
        "another."
    )
    yield Claim("abstract, 5.3, table 5", says, "8.6, 8.9 or 9 %", f"{mean:.1f} %", _judge_error(mean, 8.9), why, RANKS)
    smallest = min(row["batch"] for one in rows["table 5 on CPUs"]["networks"].values() for row in one)
    kept = [
        100 * abs(row["predicted_s"] / row["measured_s"] - 1)
        for one in rows["table 5 on CPUs"]["networks"].values()
        for row in one
        if row["batch"] > smallest
    ]
    says = "without the smallest batches they are off by less"
    why = f"Here without {smallest:g} samples a rank, there without one; small batches are what is predicted worst."
    verdict = judge_all([fmean(kept) < mean])
    yield Claim(
        "5.3, footnote 8", says, "6.3 % for 8.6 %", f"{fmean(kept):.1f} % for {mean:.1f} %", verdict, why, RANKS
    )


def _on_table5(rows: Rows) -> Iterator[Claim]:
    whole: Mapping[str, Mapping[str, Any]] = rows.get("GPU", {}).get("whole", {})
    for name, paper in _NETWORKS5.items():
        says = f"iterations of {name} are off by"
        found = [_mape(one[name]) for one in whole.values() if name in one]
        if not found:
            why = "It needs two GPUs or more: `make bench-gpu` measures it." if name != "Inception" else _NO_INCEPTION
            yield not_run("table 5", says, f"{paper:g} %", GPUS, why)
            continue
        why = f"On {', '.join(ranks for ranks in whole if name in whole[ranks])} GPUs of one machine."
        yield Claim(
            "table 5", says, f"{paper:g} %", f"{fmean(found):.1f} %", _judge_error(fmean(found), paper), why, GPUS
        )
    for machine, paper in _VMS5.items():
        yield not_run("table 5", f"iterations on {machine} are off by", f"{paper:g} %", GPUS, _MORE)
    for ranks, paper in _WORLDS5.items():
        yield _judge_world(rows, ranks, paper)


def _judge_world(rows: Rows, ranks: str, paper: float) -> Claim:
    """Judge iterations of so many GPUs: by those of one machine, else by as many ranks on shaped links."""
    says, said = f"iterations of {ranks} GPUs are off by", f"{paper:g} %"
    by_network, setting, why = rows.get("GPU", {}).get("whole", {}).get(ranks), GPUS, "On one machine."
    if by_network is None and ranks in list_shaped(rows):
        by_network, setting = list_shaped(rows)[ranks], _say_shaped(rows)
        each = ", ".join(f"{name} {_mape(one):.0f} %" for name, one in by_network.items())
        why = f"{ranks} ranks on two cores ({each}); on so many GPUs `make bench-gpu` measures it."
    if by_network is None:
        why = _MORE if int(ranks) > 8 else "It needs so many GPUs: `make bench-gpu` measures it."
        return not_run("table 5", says, said, GPUS, why)
    mean = fmean(_mape(one) for one in by_network.values())
    return Claim("table 5", says, said, f"{mean:.1f} %", _judge_error(mean, paper), why, setting)


def list_shaped(rows: Rows) -> Mapping[str, Mapping[str, list[dict[str, float]]]]:
    """Return the iterations of ranks on shaped links, by ranks and network."""
    found: Mapping[str, Mapping[str, list[dict[str, float]]]] = rows.get(SHAPED, {}).get("ranks", {})
    return found


def _say_shaped(rows: Rows) -> str:
    least, most = rows[SHAPED]["load"]
    return (
        "Two small networks at batches of 4 and 16 a rank, DistributedDataParallel over gloo; each rank has one thread "
        f"and a network namespace of its own that sends at most {rows[SHAPED]['link']}; all share two cores, which did "
        f"other work at the time (load {least:g} to {most:g}), and profile, probe and train at once; medians of 8 "
        "iterations, which the exchange decides on links as slow as these. The paper has a GPU for each rank and EC2's "
        "network"
    )


_NO_INCEPTION = "Inception is not among the networks here."


def _mape(rows: list[dict[str, float]]) -> float:
    return fmean(100 * abs(row["predicted_s"] / row["measured_s"] - 1) for row in rows)


def _on_figure7(rows: Rows) -> Iterator[Claim]:
    says, second = "of predictions, so many are no underestimates", "nine in ten underestimate by no more than"
    if "table 5 on CPUs" not in rows:
        yield not_run("figure 7", says, f"{_SHARE_UNDER:g} %", RANKS)
        yield not_run("figure 7", second, f"{_NINETIETH:g} %", RANKS)
        return
    under = _underestimates(rows)
    none = 100 * sum(each <= 0 for each in under) / len(under)
    why = (
        f"{sum(each > 0 for each in under)} of {len(under)} are underestimates: what the ranks cost each other is "
        "seen in part only."
    )
    verdict = Verdict.HOLDS if none >= REACHED * _SHARE_UNDER else Verdict.NOT
    yield Claim("figure 7", says, f"{_SHARE_UNDER:g} %", f"{none:.0f} %", verdict, why, RANKS)
    here = under[max(0, -(-9 * len(under) // 10) - 1)]
    why = "The ninth tenth of the sorted errors."
    yield Claim("figure 7", second, f"{_NINETIETH:g} %", f"{here:.0f} %", _judge_error(here, _NINETIETH), why, RANKS)


def _underestimates(rows: Rows) -> list[float]:
    """Return, sorted, by how many percent of what was measured predictions are too low; 0 where they are not."""
    return sorted(max(0.0, -each) for one in _errors(rows).values() for each in one)


def _on_compute(rows: Rows) -> Iterator[Claim]:
    straight = "four points describe passes better than a straight line through them"
    networks, where, setting = _find_compute(rows)
    if not networks:
        yield not_run("4.1, figure 5", straight, "", CPUS)
        for word, paper in _OVERALL6.items():
            yield not_run("5.3, table 6", f"{_WORDS[word]} are predicted within, on average", f"{paper:g} %", CPUS)
        return
    better = [one["both"] <= one["straight"] for one in networks.values()]
    means = [100 * fmean(one[key] for one in networks.values()) for key in ("both", "straight")]
    here = f"{means[0]:.1f} % for {means[1]:.1f} % on average, for {sum(better)} of {len(better)} networks"
    why = "Errors of whole iterations; the line misses the smallest batches."
    yield Claim("4.1, figure 5", straight, "", here, judge_all([*better, means[0] < means[1]]), why, setting)
    for word, paper in _OVERALL6.items():
        mean = 100 * fmean(one[word] for one in networks.values())
        says, why = f"{_WORDS[word]} are predicted within, on average", f"Over {len(networks)} networks {where}."
        verdict = _judge_error(mean, paper)
        yield Claim("5.3, table 6", says, f"{paper:g} %", f"{mean:.1f} %", verdict, why, setting)


def _find_compute(rows: Rows) -> tuple[Mapping[str, Mapping[str, float]], str, str]:
    """Return the errors of the compute model by network, on what: a GPU where there was one, and the set-up."""
    gpu = rows.get("GPU", {})
    if not gpu.get("compute"):
        return list_networks(rows), _ON_CPU, CPUS
    largest = max(one["largest"] for one in gpu["compute"].values())
    return gpu["compute"], f"on one {gpu['device']}", _ONE_GPU.format(**gpu, largest=largest)


def _on_table6(rows: Rows) -> Iterator[Claim]:
    networks, where, setting = _find_compute(rows)
    cpu = list_networks(rows)
    for name, paper in _TABLE6.items():
        says, said = f"{name}: passes forward, backward and both are predicted within", _say_three(paper)
        if name not in networks:
            why = _NO_INCEPTION if name == "Inception" else "The measurement was not made yet."
            yield not_run("table 6", says, said, CPUS, why)
            continue
        here = _take_three(networks[name])
        verdict = judge_all([_judge_error(a, b) is Verdict.HOLDS for a, b in zip(here, paper, strict=True)])
        why = f"It is {where}; {_WAITS[0].lower()}{_WAITS[1:]}"
        if where != _ON_CPU:
            more = f"; both within {100 * networks[name]['six']:.1f} % with two small batches in the profile"
            beside = f"; on a CPU {_say_three(_take_three(cpu[name]))}" if name in cpu else ""
            why = f"It is {where}, which takes as long for a few images as for one{more}{beside}."
        yield Claim("table 6", says, said, _say_three(here), verdict, why, setting)
    for gpu, paper in _GPUS6.items():
        says = f"{gpu}: passes forward, backward and both are predicted within"
        if gpu.split()[-1] not in where:
            why = _WAITS if where == _ON_CPU else f"It needs that GPU; the rows above are {where}."
            yield not_run("table 6", says, _say_three(paper), GPUS, why)
            continue
        here = _average_three(networks)
        verdict = judge_all([_judge_error(a, b) is Verdict.HOLDS for a, b in zip(here, paper, strict=True)])
        yield Claim("table 6", says, _say_three(paper), _say_three(here), verdict, f"It is {where}.", setting)


def _take_three(errors: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(100 * errors[word] for word in _OVERALL6)


def _average_three(networks: Mapping[str, Mapping[str, float]]) -> tuple[float, ...]:
    return tuple(fmean(each) for each in zip(*map(_take_three, networks.values()), strict=True))


def _say_three(percent: Sequence[float]) -> str:
    return ", ".join(f"{each:.1f}" for each in percent) + " %"


def list_networks(rows: Rows) -> dict[str, dict[str, float]]:
    """Return the errors of the compute model on a CPU, by network."""
    return {name: rows[f"{TABLE6}{name}"] for name in NETWORKS6 if f"{TABLE6}{name}" in rows}


def _on_bandwidth(_: Rows) -> Iterator[Claim]:
    why = "The grid is not public; `optplan measure bandwidth` probes one and fits such a model."
    for says, paper in (
        ("the bandwidth model is off, for buffers of more than an MTU, by", "11.7 %"),
        ("and for smaller ones by", "23.9 %"),
        ("the rated bandwidth is off by", "4,000 % or more"),
        ("no model could be better than, for small and large buffers", "9.6 and 8.2 %"),
    ):
        yield Claim("5.3", says, paper, "", Verdict.UNSAID, why, CLOUD)
    why = "It describes the data."
    yield Claim("4.2", "the grid has 40,000 timings", "40,000", "", Verdict.NOTHING, why, MODEL)
    why = "The other figure is of another paper, on other networks."
    yield Claim(
        "6",
        "AlexNet's iterations are predicted within 3.9 % for 17 %",
        "3.9 % for 17 %",
        "",
        Verdict.UNSAID,
        why,
        MODEL,
    )


def draw_charts(rows: Rows) -> list[Chart]:
    """Draw figure 7 with the paper's two points."""
    if "table 5 on CPUs" not in rows:
        return []
    under = _underestimates(rows)
    share = [100 * (number + 1) / len(under) for number in range(len(under))]
    lines = [
        Line("here, two ranks on two cores", under, share, steps=True),
        Line("the paper", [0.0, _NINETIETH], [_SHARE_UNDER, 90.0]),
    ]
    axes = Axis("underestimated by at most (%)", low=0.0), Axis("predictions (%)", low=0.0, high=100.0)
    caption = (
        "Figure 7: how many predictions underestimate by how much, with the two points that the paper's text gives."
    )
    return [Chart("figure7", caption, draw("predictions by underestimation", lines, *axes))]


def tell(rows: Rows) -> str:
    """Show every measured iteration and the compute model's errors."""
    parts = []
    found, where, _ = _find_compute(rows)
    cpu = list_networks(rows)
    for networks, on in ((cpu, _ON_CPU), ({} if where == _ON_CPU else found, where)):
        if networks:
            head = ("network", "forward", "backward", "both", "both, six points", "a straight line", "deviation")
            keys = ("forward", "backward", "both", "six", "straight", "deviation")
            table = [[name, *(f"{100 * one[key]:.1f} %" for key in keys)] for name, one in networks.items()]
            parts += [f"## The compute model {on}", write_table(head, table)]
    if list_shaped(rows):
        columns = ("ranks", "network", "batch of a rank", "passes", "exchange", "predicted", "measured", "off")
        table = [
            [ranks, name, *_say_iteration(row)]
            for ranks, by_network in list_shaped(rows).items()
            for name, each in by_network.items()
            for row in each
        ]
        parts += ["## Iterations on links of limited rate", f"{_say_shaped(rows)}.", write_table(columns, table)]
    if "table 5 on CPUs" in rows:
        columns = ("network", "gradients", "batch of a rank", "passes", "exchange", "predicted", "measured", "off")
        megabytes = rows["table 5 on CPUs"]["gradients_mb"]
        table = [
            [name, f"{megabytes[name]:.1f} MB", *_say_iteration(row)]
            for name, each in rows["table 5 on CPUs"]["networks"].items()
            for row in each
        ]
        parts += ["## Iterations of two ranks", write_table(columns, table)]
    return "\n\n".join(parts)


def _say_iteration(row: Mapping[str, float]) -> list[str]:
    """Return the batch, what an iteration consists of, and how far its prediction is off."""
    times = (f"{1000 * row[key]:.1f} ms" for key in ("compute_s", "exchange_s", "predicted_s", "measured_s"))
    return [f"{row['batch']:g}", *times, f"{100 * (row['predicted_s'] / row['measured_s'] - 1):+.0f} %"]
