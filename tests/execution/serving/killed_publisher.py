"""Keeps a calculator in processes that are killed at any moment, and says what was confirmed. Run by a test.

Arguments: the folder, how many times to kill, the seed. Prints a line of JSON: how many events were confirmed.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
from pathlib import Path

from optplan.execution.online.messages import Arrival, Measurement, OnlineEvent, Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.serving.publisher import WIDTHS_FILE, Publisher
from optplan.formulations.boa.data.instance import BoaInstance

_TABLE = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
_CLASS = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"t4": _TABLE}}
#: Nothing is forgotten, and everything that moves leads to a table.
_TERMS = Terms(window_h=1e9, settle_s=0.0, move=1e-9, least_gain=0.0)
_IN_BATCH = 5


def make_instance() -> BoaInstance:
    """Return a stream of one class."""
    return BoaInstance(classes={"a": _CLASS}, gpu_types={"t4": {}}, budget="1e6gpu", problem="whole")


def _make_batch(number: int) -> list[OnlineEvent]:
    arrivals: list[OnlineEvent] = [
        Arrival(id=f"arrival-{number}-{each}", job_class="a") for each in range(_IN_BATCH - 1)
    ]
    speed = Measurement(id=f"speed-{number}", job_class="a", gpus=1 + number % 2, speed=1.0 + number % 7)
    return [*arrivals, speed, arrivals[0]]  # the first one again


def _tell_on(folder: Path, first: int, told: int) -> None:
    """Tell of batch after batch, and write the number of each that was confirmed."""
    publisher = Publisher(folder, make_instance(), _TERMS)
    publisher.start()
    number = first
    while True:
        publisher.tell(_make_batch(number)).result()
        os.write(told, f"{number}\n".encode())
        publisher.calculate()
        number += 1


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill, begin again where nothing was confirmed, and at last end in peace."""
    luck = random.Random(seed)
    confirmed = 0
    for _ in range(kills):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _tell_on(folder, confirmed, writer)
        os.close(writer)
        lines = b""
        wanted = luck.randrange(0, 5)
        while lines.count(b"\n") < wanted:
            lines += os.read(reader, 4096)
        select.select([reader], [], [], luck.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(reader, 4096):
            lines += more
        os.close(reader)
        confirmed = max([confirmed, *(int(line) + 1 for line in lines.split())])
        if (folder / WIDTHS_FILE).exists():
            WidthTable.parse(json.loads((folder / WIDTHS_FILE).read_text("utf-8")))
    publisher = Publisher(folder)
    publisher.start()
    publisher.tell(_make_batch(confirmed)).result()
    publisher.stop()
    sys.stdout.write(json.dumps({"batches": confirmed + 1}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
