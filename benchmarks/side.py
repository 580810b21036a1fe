"""One of two installations that are measured side by side: a process that answers requests, one a line.

It is run as a file by the interpreter of either, so that it needs nothing but what every version has: the public names
of ``optplan``. A request names a question and the file of its instance; the answer has milliseconds of processor time.
"""

import gc
import json
import os
import sys
import time
import warnings
from typing import Any

Row = dict[str, Any]


def solve(instance: Any) -> Row:  # noqa: ANN401 - an instance, of whichever version
    """Measure a solve with its check, and the check alone."""
    import optplan

    begin = time.process_time()
    result = optplan.solve(instance)
    whole = time.process_time() - begin
    begin = time.process_time()
    optplan.verify(instance, result)
    check = time.process_time() - begin
    return _report(whole, check, [result.status.value, result.objective, result.bound])


def frontier(instance: Any) -> Row:  # noqa: ANN401 - as above
    """Measure the frontier of an instance; it is told by its ends."""
    import optplan

    begin = time.process_time()
    found = optplan.frontier(instance)
    whole = time.process_time() - begin
    return _report(whole, 0.0, [float(axis[end]) for axis in (found.budgets, found.objectives) for end in (0, -1)])


def explain(instance: Any) -> Row:  # noqa: ANN401 - as above
    """Measure the explanation of a plan; it is told by what its alternatives cost."""
    import optplan

    result = optplan.solve(instance)
    begin = time.process_time()
    found = optplan.explain(instance, result)
    whole = time.process_time() - begin
    costs = [each.forced_objective for choice in found.choices for each in choice.alternatives]
    return _report(whole, 0.0, [cost for cost in costs if cost is not None])


def _report(whole: float, check: float, answer: list[Any]) -> Row:
    return {"ms": 1e3 * whole, "solver_ms": 1e3 * (whole - check), "check_ms": 1e3 * check, "answer": answer}


def main() -> None:
    """Answer requests from standard input until it ends."""
    import optplan

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # engines of old versions print
    questions = {"solve": solve, "frontier": frontier, "explain": explain}
    for line in sys.stdin:
        request = json.loads(line)
        instance = optplan.read_instance(request["instance"])
        gc.collect()
        answers.write(json.dumps(questions[request["question"]](instance)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
