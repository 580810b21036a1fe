"""The claims of Srift's study of the cloud: sections 2 and 3, tables 1 to 4, figures 1 to 3."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import Any

from claims.record import Claim, Rows, Verdict, judge_all, judge_at_least, not_run
from claims.srift_accuracy_claims import list_networks

CLOUD = "Measured on EC2, on up to 64 VMs, which this project cannot rent"
STUDY = (
    "Fleets of one type, fully loaded (weak scaling) or with the case's batch shared equally (strong), of 1 to 32 "
    "VMs, predicted "
    "with profiles that are calibrated to the paper's choices, at its spot prices of table 4: Inception on "
    "g4dn.8xlarge, VGG19 on "
    "g3 and g4dn, ShuffleNet and ResNet50 on these and p3.8xlarge. The paper measures ResNet50, VGG19, SqueezeNet "
    "and AlexNet on "
    "six other sizes of VM at prices on demand"
)
CPU = "Iterations of one process on one thread, in processor time, over repetitions; the paper's are GPUs of 64 VMs"
MODEL = "What the paper describes, beside what this project does"


def list_study_claims(rows: Rows) -> list[Claim]:
    """List the claims."""
    return [claim for part in (_on_clouds, _on_landscape, _on_sizes, _on_strong) for claim in part(rows)]


def _on_clouds(rows: Rows) -> Iterator[Claim]:
    why = "One machine has no other VMs beside it."
    yield Claim(
        "2.1, figure 1",
        "the fastest of 64 VMs is faster than the slowest by",
        "1.1 to 1.2 times",
        "",
        Verdict.UNSAID,
        why,
        CLOUD,
    )
    here = ""
    deviations = [one["deviation"] for one in list_networks(rows).values()]
    if deviations:
        here = (
            f"{100 * min(deviations):.1f} to {100 * max(deviations):.1f} % by network, {100 * median(deviations):.1f} "
            "% in the median"
        )
    for machine, percent in (("p3.2xlarge", 5.2), ("g3.4xlarge", 4.3), ("g4dn.4xlarge", 6.7)):
        says = f"deviation over mean of an iteration on a {machine}"
        why = "Another machine: that iterations differ is seen here, too."
        yield Claim("table 1", says, f"{percent:g} %", here, Verdict.UNSAID, why, CPU)
    why = "It is the default of `deviation` here."
    yield Claim("4.3", "the median deviation of a VM's iterations is", "3.6 %", "", Verdict.UNSAID, why, CLOUD)
    for machine, rated, mean in (("p3.8xlarge", "10", 11.2), ("g3.8xlarge", "10", 11.9), ("g4dn.4xlarge", "25", 20.3)):
        says = f"a pair of {machine}, rated {rated} Gbit/s, has on average"
        why = "The mean is what the library's cases take for the rating."
        yield Claim("table 2", says, f"{mean:g} Gbit/s", "", Verdict.UNSAID, why, CLOUD)
    why = "They are inputs of the library's cases."
    yield Claim("tables 3, 4", "hardware, spot prices and largest batches", "", "", Verdict.NOTHING, why, MODEL)
    why = "No profile and no price of the c5 family is public in the paper."
    says = "GPUs give more training for a dollar than CPUs, by"
    yield Claim("3.1, figure 2", says, "3 times or more", "", Verdict.UNSAID, why, STUDY)
    why = "The cases have one size of each family."
    says = "larger VMs of p3 are the better buy, of c5 they are not"
    yield Claim("3.3, figure 2", says, "", "", Verdict.UNSAID, why, STUDY)


def _on_landscape(rows: Rows) -> Iterator[Claim]:
    fastest, falls = "the fastest type is not the best buy", "every type loses cost-efficiency as the fleet grows"
    if "section 3" not in rows:
        yield not_run("3.2, figure 2", fastest, "", STUDY)
        yield not_run("3.4, figure 2", falls, "", STUDY)
        return
    found = {
        network: holds
        for network, one in rows["section 3"].items()
        for claim, holds in one["conclusions"].items()
        if claim.startswith("3.2") and holds is not None
    }
    why = "At these prices a VM of four V100s is the fastest and the best buy, where it can be had."
    here = ", ".join(f"{network}: {'yes' if holds else 'no'}" for network, holds in found.items())
    yield Claim("3.2, figure 2", fastest, "", here, judge_all(list(found.values())), why, STUDY)
    best = {
        network: _best_alone(one["samples_per_usd"], ("g3.8xlarge", "g4dn.8xlarge")) for network, one in _several(rows)
    }
    here = ", ".join(f"{network}: {name}" for network, name in best.items())
    why = "Of M60 and T4, the older one and the newer."
    says = "neither the older nor the newer GPU is always the better buy"
    yield Claim("3.2", says, "", here, judge_all([len(set(best.values())) > 1]), why, STUDY)
    decays = [
        curve for one in rows["section 3"].values() for curve in one["samples_per_usd"].values() if len(curve) > 1
    ]
    falling = [all(a >= b for a, b in pairwise(curve.values())) for curve in decays]
    kept = [list(curve.values())[-1] / next(iter(curve.values())) for curve in decays]
    here = (
        f"for {sum(falling)} of {len(falling)}; the largest fleet has {100 * min(kept):.0f} to {100 * max(kept):.0f} "
        "% of the least"
    )
    why = "Weak scaling; stragglers are most of it, as full batches hide the exchange."
    yield Claim("3.4, figure 2", falls, "", here, judge_all(falling), why, STUDY)


def _several(rows: Rows) -> Iterator[tuple[str, Any]]:
    """Yield the networks of which several types are known."""
    return ((name, one) for name, one in rows["section 3"].items() if len(one["samples_per_usd"]) > 1)


def _best_alone(curves: dict[str, dict[str, float]], names: tuple[str, ...]) -> str:
    return max((name for name in names if name in curves), key=lambda name: curves[name]["1"])


def _on_sizes(rows: Rows) -> Iterator[Claim]:
    says = "which type is the best buy depends on the number of VMs"
    if "section 3" not in rows:
        yield not_run("3.4, figure 2", says, "p3.8xlarge alone, g4dn.4xlarge at 16", STUDY)
        return
    changes, told = [], []
    for network, one in _several(rows):
        curves = one["samples_per_usd"]
        sizes = [size for size in next(iter(curves.values())) if all(size in curve for curve in curves.values())]
        best = [max((curve[size], name) for name, curve in curves.items())[1] for size in sizes]
        changes.append(len(set(best)) > 1)
        told.append(f"{network}: {' then '.join(dict.fromkeys(best))}")
    why = (
        "Weak scaling: with full batches the exchange hides behind the backward pass, so that the network decides "
        "nothing."
    )
    paper = "p3.8xlarge alone, g4dn.4xlarge at 16"
    yield Claim("3.4, figure 2", says, paper, ", ".join(told), judge_all(changes), why, STUDY)


def _on_strong(rows: Rows) -> Iterator[Claim]:
    all_says = (
        ("with a given batch the number of VMs changes throughput by up to", 2.7),
        ("and cost by up to", 47.0),
    )
    for at, (says, paper) in enumerate(all_says):
        if "section 3" not in rows:
            yield not_run("3.4, figure 3", says, f"{paper:g} times", STUDY)
            continue
        spreads = [
            (one[at], f"{network} on {vm}")
            for network, study in rows["section 3"].items()
            for vm, one in study["spreads"].items()
        ]
        largest, where = max(spreads)
        why = f"The largest is that of {where}."
        why += " The paper's sizes go further, and it has networks that mostly exchange, such as AlexNet." if at else ""
        verdict = judge_at_least(largest, paper, from_=2.0 if at else 1.5)
        yield Claim("3.4, figure 3", says, f"{paper:g} times", f"{largest:.1f} times", verdict, why, STUDY)
