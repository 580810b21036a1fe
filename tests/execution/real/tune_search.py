"""A search in Ray Tune that follows a plan, on two nodes made in this machine: ``tune_search.py FOLDER``.

``test_ray_tune.py`` runs it in a network of its own, and reads what it leaves in the folder.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.cluster_utils import Cluster

from optplan.execution.ray_tune import PlanScheduler
from optplan.instances.files import read_plan

#: Bytes that Ray sets aside for objects on a node, and seconds for which a trial looks for its companions.
MEMORY = 80_000_000
PATIENCE_S = 60.0


class Descent(tune.Trainable):
    """Goes down to 3; whenever it is started it waits for the other trials of the stage, and counts them."""

    def setup(self, config: dict[str, Any]) -> None:
        """Begin at 0."""
        self.x, self.own, self.folder, self.company = 0.0, config["trial"], Path(config["folder"]), 0
        self.companions = config["companions"]

    def step(self) -> dict[str, Any]:
        """Do an iteration, and write down what the trial has."""
        if not self.company:
            self.company = self._meet()
        if self.own.get("crash_at") == self.iteration + 1:
            raise RuntimeError("the loss exploded")
        time.sleep(self.own.get("wait_s", 0.0))
        self.x -= self.own["rate"] * 2 * (self.x - 3)
        loss = math.nan if self.own.get("nan") else (self.x - 3) ** 2
        cpus = [bundle["CPU"] for bundle in self.trial_resources.bundles]
        line = {"iteration": self.iteration + 1, "loss": (self.x - 3) ** 2, "company": self.company, "cpus": cpus}
        with (self.folder / f"{self.own['rate']}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return {"loss": loss}

    def _meet(self) -> int:
        place = self.folder / f"from-{self.iteration}"
        place.mkdir(exist_ok=True)
        (place / self.trial_id).touch()
        expected, until = self.companions.get(str(self.iteration), 1), time.monotonic() + PATIENCE_S
        while (seen := len(list(place.iterdir()))) < expected and time.monotonic() < until:
            time.sleep(0.02)
        return seen

    def save_checkpoint(self, folder: str) -> None:
        """Store x."""
        Path(folder, "x").write_text(str(self.x), encoding="utf-8")

    def load_checkpoint(self, folder: str) -> None:
        """Go on from what was stored."""
        self.x = float(Path(folder, "x").read_text(encoding="utf-8"))


def main(folder: Path) -> None:
    """Search as ``case.json`` says, on two nodes of two CPUs each."""
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    head = {"num_cpus": 2, "object_store_memory": MEMORY, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=2, object_store_memory=MEMORY)
        ray.init(address=cluster.address, log_to_driver=False)
        scheduler = PlanScheduler(read_plan(folder / "plan.json"), per_gpu={"CPU": 1})
        space = {"folder": str(folder), "companions": case["companions"], "trial": tune.grid_search(case["space"])}
        tuner = tune.Tuner(
            Descent,
            param_space=space,
            tune_config=tune.TuneConfig(scheduler=scheduler, **case.get("tune", {})),
            run_config=tune.RunConfig(
                name="search",
                storage_path=str(folder / "results"),
                verbose=0,
                failure_config=tune.FailureConfig(max_failures=case.get("failures", 0)),
            ),
        )
        tuner.fit()
        outcome = scheduler.outcome().to_json_data()
        (folder / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
