"""Claims of the paper on BOA about its traces and speedups, and its numbers that nothing here can measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from claims.record import Claim, Rows, Verdict, judge_at_least, judge_near, not_run

#: Table 1: percent of newTrace's jobs.
_SHARES = {
    "cifar10": ("ResNet18", 50.42),
    "bert": ("BERT", 21.67),
    "deepspeech2": ("DeepSpeech2", 23.54),
    "yolov3": ("YOLOv3", 4.75),
    "imagenet": ("ResNet50", 0.62),
}
_TRACE_SETTING = "The traces published with Pollux and Sia, as they are."


def list_trace_claims(rows: Rows) -> Iterator[Claim]:
    """List those of sections 2.3 and 6.1, table 1 and figure 2."""
    told = rows.get("traces")
    says = "interarrival times of newTrace have a squared coefficient of variation of 2.65"
    if told is None:
        yield not_run("6.1", says, "2.65", _TRACE_SETTING)
        return
    variations = told["variation"]
    here = f"{variations[0]:.2f}; {min(variations):.2f} to {max(variations):.2f} in its {len(variations)} samples"
    why = "The paper does not say which of the samples it took; within a tenth of the first it holds."
    yield Claim("6.1, 6.4", says, "2.65", here, judge_near(variations[0], 2.65, 0.1), why, _TRACE_SETTING)
    for name, (model, share) in _SHARES.items():
        own = 100 * told["applications"].get(name, 0) / told["jobs"]
        why = "The paper's shares add up to 101 %." if abs(own - share) > 0.01 else "The same jobs."
        verdict = Verdict.HOLDS if abs(own - share) <= 0.01 else Verdict.NOT
        says = f"share of {model} in newTrace"
        yield Claim("table 1", says, f"{share:.2f} %", f"{own:.2f} %", verdict, why, _TRACE_SETTING)
    for where, says, paper, key in (
        ("6.3", "newTrace has 960 jobs", 960, "jobs"),
        ("6.3", "filterTrace has 918 jobs", 918, "filtered"),
        ("6.1", "the sub-trace of workload-1 has 85 jobs", 85, "few"),
    ):
        verdict = Verdict.HOLDS if told[key] == paper else Verdict.NOT
        why = "Jobs of three applications, as 6.1 cuts them." if key != "jobs" else "As published."
        yield Claim(where, says, str(paper), str(told[key]), verdict, why, _TRACE_SETTING)
    sizes = told["size_gpu_h"]
    most, least = max(sizes, key=sizes.__getitem__), min(sizes, key=sizes.__getitem__)
    ratio = sizes[most] / sizes[least]
    why = f"From {sizes[least]:.2g} ({least}) to {sizes[most]:.3g} GPU-hours ({most}) on the fewest GPUs."
    says = "job sizes differ by a factor of 10 between types"
    yield Claim("2.3, 6.1", says, "10 times", f"{ratio:,.0f} times", judge_at_least(ratio, 10.0), why, _TRACE_SETTING)
    yield from _on_speedups(told["speedup"])


def _on_speedups(speedup: Mapping[str, Sequence[float]]) -> Iterator[Claim]:
    gpus, first, last = speedup["gpus"][-1], speedup["first"][-1], speedup["last"][-1]
    setting = "Speedups that Sia's profiles measured on nodes of 4 T4, of Cifar10's first and last epoch."
    says = "the speedup of a Cifar10 job shifts upward over training"
    here = f"{first:.2f} on {gpus:g} GPUs in the first epoch, {last:.2f} in the last"
    verdict = Verdict.HOLDS if last > first else Verdict.NOT
    yield Claim("figure 2a", says, "upward", here, verdict, "As efficiency grows in training.", setting)
    says = "speedups are sublinear, so that wider jobs cost more"
    here = f"{gpus / first:.1f} and {gpus / last:.1f} times the GPU-hours on {gpus:g} GPUs"
    verdict = Verdict.HOLDS if min(gpus / first, gpus / last) > 1.0 else Verdict.NOT
    yield Claim("figure 2b", says, "k / s(k) above 1", here, verdict, "GPUs over speedup.", setting)


def list_concepts() -> Iterator[Claim]:
    """List numbers of the paper that nothing here can measure, or that are settings."""
    theirs = "Their cluster on AWS."
    for where, says, paper, why in (
        ("1", "AWS profits from renting GPUs", "20 billion dollars, 20 %", "A forecast of others."),
        ("1", "cloud GPUs can be rented and returned on a timescale of minutes", "1 to 2 min", "Of clouds, not BOA."),
        (
            "1",
            "a budget a month is a cluster on average",
            "10,000 dollars, 40 GPUs",
            "An example at a price not given.",
        ),
        ("6.1", "Pollux suggests a target efficiency", "0.5", "A setting: one of the targets of each curve."),
        ("6.1", "the band around the target c", "0.3 min(c, 1 - c)", "A setting, as here."),
        ("6.2", "the scale of experiments", "300 GPUs on 80 nodes", "A setting: as many nodes as needed come here."),
        ("6.2", "Pollux with autoscaling decides in rounds", "60 s", "A setting, as here."),
        ("5.2", "widths are calculated again periodically", "15 min", "A setting, as here where BOA learns."),
        ("appendix C", "Algorithm 1 tries glue configurations", "50", "A setting, as here."),
        ("appendix C", "Algorithm 1 lowers the running budget in steps", "0.99", "A setting, as here."),
        ("appendix E", "BOA extends to several GPU types", "", "A formulation without an experiment."),
    ):
        yield Claim(where, says, paper, "", Verdict.NOTHING, why, "None.")
    for where, says, paper in (
        ("figure 4b", "simulations match the experiments on AWS, in percent between policies", "closely"),
        ("6.2", "the lowest use of Pollux with autoscaling crashes on AWS", "a crash"),
    ):
        yield Claim(where, says, paper, "", Verdict.UNSAID, "Nothing here runs on AWS.", theirs)
