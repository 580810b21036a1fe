"""The judge within hard caps of memory and, where a result is large, of processor time, whatever it is doing.

The judge looks at its stopwatch in every loop and bounds what it keeps. What a file makes of that is capped once more
by the system. A large result is judged in a process of its own, which can be ended at any point; what its decisions
amount to has been judged before.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.contracts import Check, Instance, Result, Solution, Verification
from optplan.contracts.judgement import Judged
from optplan.errors import InternalError, OptplanError
from optplan.progress import end_with_parent
from optplan.verification.judge import judge, verify

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from optplan.instances.job_traces import JobTrace

#: Characters of a result, written as JSON, from which on it is worth a process of its own, which takes a second to
#: start.
LARGE = 100_000
#: Seconds of processor time beyond the limit after which that process is ended, and bytes that a judge may take beyond
#: those that there are when it begins.
PATIENCE_S, MOST_BYTES = 10.0, 1 << 30


def verify_capped(
    instance: Instance,
    result: Result[Solution] | Judged,
    *,
    jobs: JobTrace | None = None,
    gap: float,
    as_given: bool,
    time_limit_s: float,
) -> Verification:
    """Do as :func:`~optplan.verification.verify` does, and end at hard caps: what is checked by then holds."""
    if isinstance(result, Judged):
        with _capped_memory(MOST_BYTES):
            return verify(instance, result, jobs=jobs, time_limit_s=time_limit_s)
    terms: dict[str, Any] = {"gap": gap, "as_given": as_given, "time_limit_s": time_limit_s}
    caps, begun = (time_limit_s + PATIENCE_S, MOST_BYTES), list[Verification]()
    # Without an interpreter's name there can be no other one.
    if sys.executable and len(result.model_dump_json()) > LARGE:
        found = _judge_apart((instance, result, terms), caps, begun.append)
    else:
        with _capped_memory(MOST_BYTES):
            try:
                found = judge(instance, result, **terms, tell=begun.append)
            except MemoryError:
                found = None
    return _conclude(begun, result, caps) if found is None else found


def _judge_apart(
    work: tuple[Instance, Result[Solution], dict[str, Any]],
    caps: tuple[float, int],
    tell: Callable[[Verification], object],
) -> Verification | None:
    """Have a fresh process judge a result; None when it was ended."""
    from multiprocessing import get_context  # only here: small results are judged without it

    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(sender, work, caps), daemon=True)
    process.start()
    sender.close()
    try:
        while True:
            kind, content = receiver.recv()
            if kind == "judged":
                return content  # type: ignore[no-any-return]
            if kind == "raised":
                raise content
            tell(content)
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()
        receiver.close()


def _serve(
    sender: Connection, work: tuple[Instance, Result[Solution], dict[str, Any]], caps: tuple[float, int]
) -> None:
    """Judge a result for the process that started this one."""
    end_with_parent()
    with suppress(ImportError, OSError, ValueError):  # not on every system, and no more than what was set before
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        end_s = math.ceil(used.ru_utime + used.ru_stime + caps[0])
        resource.setrlimit(resource.RLIMIT_CPU, (end_s, end_s + 1))
    instance, result, terms = work
    try:
        with _capped_memory(caps[1]):
            found = judge(instance, result, **terms, tell=lambda begun: sender.send(("begun", begun)))
            sender.send(("judged", found))
    except OptplanError as error:
        sender.send(("raised", error))
    except (MemoryError, ImportError, SystemError):  # as if it had been ended: so do libraries say that memory is short
        os._exit(1)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other process has to hear of it
        sender.send(("raised", InternalError(f"{type(error).__name__}: {error}")))


@contextmanager
def _capped_memory(most_bytes: int) -> Iterator[None]:
    """Have the system give this process no more than some memory beyond what it has, in a block."""
    before: tuple[int, int] | None = None
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = pages * resource.getpagesize() + most_bytes
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
            before = (soft, hard)
    try:
        yield
    finally:
        if before is not None:
            resource.setrlimit(resource.RLIMIT_AS, before)


def _conclude(begun: list[Verification], result: Result[Solution], caps: tuple[float, int]) -> Verification:
    """Say what is known of a result whose judge was ended."""
    said = f"{caps[0]:g} s of processor time and {caps[1] / 2**30:g} GiB of memory"
    if not begun:
        message = f"what the decisions amount to could not be computed within {said}"
        return Verification(checks=(Check.exactly("objective", message, holds=False, sides=(1.0, 0.0)),))
    what = "bound:" if result.infeasibility is None else "infeasibility: it was"
    claim = f"{what} not checked within {said}, where the judge was ended; nor was anything else that is proven"
    return begun[0].replace(on_trust=(*begun[0].on_trust, claim))
