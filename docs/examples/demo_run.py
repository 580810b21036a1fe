"""`make demo-run`: an elastic search on real training, beside the same search on a static cluster.

1. The profiler times the trials here. 2. The cheapest elastic plan, and the cheapest static cluster, for a deadline a
tenth above the least time. 3. Both plans are followed by processes on this machine. 4. Planned against actual of both,
as a table here and as a page in the folder.

A "GPU" is a slot of this machine. There are eight, likely more than it has cores, so every iteration waits until a
stated time is over; the page says so.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rich.console import Console

import optplan
from optplan.execution import RunOutcome, build_comparison_page, comparison_table, run
from optplan.profiling import ProfileSettings, profile_here, renew_search, summarise

HERE = Path(__file__).parent
TRAINABLE = f"{HERE / 'digits_search.py'}:Digits"
#: Least seconds of an iteration.
STEP_S = 0.4
#: How much later than possible the search may end.
SLACK = 1.1


def profile(instance: optplan.RubberBandInstance, space: object) -> optplan.RubberBandInstance:
    """Return the instance with the times of its trials as they are here."""
    settings = ProfileSettings((1, 2), iterations=4, warm_up=1, repetitions=2)
    profiled = profile_here(settings, space=space, train=TRAINABLE, step_wait_s=STEP_S)
    return renew_search(instance, summarise(profiled.timings), "make demo-run")


def find_least_time(instance: optplan.RubberBandInstance) -> float:
    """Return the least expected time, in seconds, whatever it costs."""
    result = optplan.solve(instance.replace(objective="time", deadline_s=None, budget="1000usd"))
    if result.objective is None:
        raise SystemExit(f"no plan: {result.status}")
    return result.objective


def main(folder: Path) -> int:
    """Run the demo and return the exit code."""
    console = Console()
    space = optplan.read_data(HERE / "demo-space.yaml")
    console.print("timing trials on 1 and 2 slots ...")
    instance = profile(optplan.read_instance(HERE / "demo-search.yaml", optplan.RubberBandInstance), space)
    instance = instance.replace(deadline_s=SLACK * find_least_time(instance))
    runs: dict[str, RunOutcome] = {}
    for name, solver in (("elastic", "auto"), ("static", "static")):
        plan = optplan.build_plan(instance, optplan.solve(instance, solver=solver))
        out = folder / name
        shutil.rmtree(out, ignore_errors=True)
        expected = plan.totals()
        told = f"planned {expected['time_s']:.0f} s and ${expected['cost_usd']:.4f}"
        console.print(f"{name}: {told}, running in {out} ...")
        # Drift is what this shows, so that nothing is planned anew.
        runs[name] = run(plan, TRAINABLE, space=space, executor="local", out=out, step_wait_s=STEP_S, replan_above=None)
    console.print()
    console.print(comparison_table(runs))
    page = folder / "run.html"
    compared = build_comparison_page({name: folder / name for name in runs}, name=instance.name)
    optplan.write_page(page, compared, overwrite=True)
    console.print(f"\nwrote {page}")
    return max(outcome.code for outcome in runs.values())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out")))
