"""Plain shell on one machine: segments one after the other, its GPUs dealt out to the trials that run side by side.

Time limits are kept by the launcher, budgets by nobody. Where the script is interrupted, what it started ends with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from optplan.execution.exports.request import Export
from optplan.execution.exports.steps import CannotExpressError

#: What else could be done where one machine is not enough.
_ELSE = "use --to slurm, skypilot or kubernetes"


class ScriptExport(Export):
    """An export to plain shell."""

    SUMMARY = "plain shell on one machine, its GPUs dealt out to trials"
    NEEDS = "bash"

    def write_files(self) -> Mapping[str, str]:
        """Return the script that runs the plan, or one job of a class, on one machine."""
        self._require_one_machine()
        if self.outline.kind == "stream":
            return {"submit.sh": self.write_script("script-stream.sh")}
        lines = [self.write_script("script.sh"), self.write_script("decide.sh").rstrip()]
        for level in self.outline.levels():
            lines += [f"decide {step.name}" for step in level if step.is_promoted]
            first = 0
            for step in level:
                segment = step.segment
                lines.append(f"stage {step.name} {segment.members} {segment.at_once} {first} {segment.gpus} &")
                first += segment.at_once * segment.gpus
            lines.append("wait")
        if self.outline.kind == "search":
            lines.append(f"{self.optplan} promote . --winner")
        else:
            lines.append(f"[[ -e trials/job/ended-{self.outline.steps[0].name} ]]")
        return {"submit.sh": "".join(f"{line}\n" for line in lines)}

    def _require_one_machine(self) -> None:
        for step in self.outline.steps:
            if step.nodes > 1:
                problem = f"segment {step.segment.id!r} gives {step.nodes} nodes to one member"
                fix = f"give --gpus-per-node of a machine that has them all, or {_ELSE}"
                raise CannotExpressError(f"cannot express: {problem}, and a plain script has one machine; {fix}")
        self.require_one_group(f"and a plain script has one machine; {_ELSE}")
        for level in [] if self.outline.kind == "stream" else self.outline.levels():
            held = sum(step.segment.at_once * step.segment.gpus for step in level)
            sizes = [self.plan.resources[step.segment.resource].gpus_per_node for step in level]
            size = self.gpus_per_node or max(sizes)
            if held > size:
                problem = f"{level[0].segment.id!r} and what runs beside it hold {held} GPUs, and a node has {size}"
                fix = f"give --gpus-per-node of a larger machine, or {_ELSE}"
                raise CannotExpressError(f"cannot express: {problem}; {fix}")
