"""HiGHS quiet and in one thread, for all who use it; and the program of one mixture, or one choice, per graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optplan.errors import EngineError
from optplan.solvers.paths.families import FloatArray, IntArray
from optplan.solvers.standard_output import standard_output_aside

if TYPE_CHECKING:
    import highspy


def start_engine(**options: float | str) -> highspy.Highs:
    """Return HiGHS without a model, quiet and in one thread; options are its own, and come on top.

    Raises
    ------
    EngineError
        When it does not know an option.
    """
    import highspy

    with standard_output_aside():  # the first one of a process prints a banner
        engine = highspy.Highs()
    usual: dict[str, float | str] = {"output_flag": False, "threads": 1, "parallel": "off", "random_seed": 0}
    for name, option in (usual | options).items():
        if engine.setOptionValue(name, option) == highspy.HighsStatus.kError:
            raise EngineError(f"HiGHS does not know the option {name}={option!r}")
    return engine


def pass_choices(
    engine: highspy.Highs,
    graph: IntArray,
    value: FloatArray,
    entries: FloatArray,
    room: FloatArray,
    *,
    dearest: float | None = None,
    whole: bool = False,
) -> None:
    """Give HiGHS the program of one mixture of paths per graph: a column for each path, rows for graphs, then limits.

    Parameters
    ----------
    graph
        (C,) Whose path each is, from 0 to G - 1.
    value, entries
        (C,), (C, L) What following it costs, and takes of each limit.
    room
        (L,) What all paths together may take.
    dearest
        Cost of each unit beyond the room, in further columns (L,): then every program has a solution. None where
        nothing may be taken beyond it.
    whole
        Whether each graph follows one path, not a mixture.
    """
    import highspy

    graphs, count, limits = int(graph.max()) + 1, graph.size, room.size
    limit_rows = graphs + np.arange(limits)
    rows = np.concatenate([graph[:, None], np.tile(limit_rows, (count, 1))], axis=1)
    numbers = np.concatenate([np.ones((count, 1)), entries], axis=1)
    over = 0 if dearest is None else limits
    starts = np.concatenate([np.arange(count) * rows.shape[1], numbers.size + np.arange(over)])
    engine.passModel(
        count + over,
        graphs + limits,
        numbers.size + over,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        np.concatenate([value, np.full(over, dearest or 0.0)]),
        np.zeros(count + over),
        np.full(count + over, 1.0 if whole else np.inf),
        np.concatenate([np.ones(graphs), np.full(limits, -np.inf)]),
        np.concatenate([np.ones(graphs), room]),
        starts.astype(np.int32),
        np.concatenate([rows.ravel(), limit_rows[:over]]).astype(np.int32),
        np.concatenate([numbers.ravel(), np.full(over, -1.0)]),
        np.full(count + over, int(whole), dtype=np.int32),
    )


def run_engine(engine: highspy.Highs) -> None:
    """Run HiGHS on its model, in one thread if that can be had, and keep standard output clean."""
    import highspy

    with standard_output_aside():
        failed = engine.run() == highspy.HighsStatus.kError
        if failed and engine.getModelStatus() == highspy.HighsModelStatus.kNotset:
            # HiGHS has one pool of threads per process; where somebody else has sized it, that size has to do.
            engine.setOptionValue("threads", 0)
            engine.run()
