"""A linear model by gloo, for real: samples of iteration i follow from i, so that the loss does not depend on ranks."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed

from optplan.execution.fleets.hook import Member


def main() -> None:
    """Train one rank of a fleet, and write the loss of each iteration to the file ``LOSSES``."""
    losses = Path(os.environ["LOSSES"])
    with Member() as member:
        meeting = f"file://{member.folder / 'meeting'}"
        torch.distributed.init_process_group(
            "gloo", init_method=meeting, rank=member.rank, world_size=member.world_size
        )
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        state = member.restore()
        if state is None:
            torch.nn.init.zeros_(model.weight)
            torch.nn.init.zeros_(model.bias)
        else:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        member.save_with(
            lambda path: torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        )
        ranked = torch.nn.parallel.DistributedDataParallel(model)
        for iteration in member.iterations():
            inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(iteration))
            part = inputs[member.first_sample : member.first_sample + member.batch]
            wanted = part @ torch.tensor([[1.0], [2.0], [3.0], [4.0]]) + 5.0
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(ranked(part), wanted)
            (member.loss_weight * loss).backward()
            time.sleep(float(os.environ["STEP_S"]))
            whole = loss.detach() * member.batch / 64
            torch.distributed.all_reduce(whole)
            with member.update(loss=whole.item()):
                optimizer.step()
                with losses.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([member.folder.name, iteration, whole.item()]) + "\n")


if __name__ == "__main__":
    main()
