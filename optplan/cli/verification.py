"""``optplan verify``: check a result against its instance without any solver."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import optplan
from optplan import wings
from optplan.cli.amending import amendments, read_amended
from optplan.cli.commands import command
from optplan.cli.console import print_answer, print_json
from optplan.cli.failures import EXIT_ON_TRUST
from optplan.cli.options import FILE, GAP, INSTANCE, TIME, argument, option
from optplan.errors import UsageError, VerificationError
from optplan.progress import VERIFY_LIMIT_S

if TYPE_CHECKING:
    from optplan.contracts.judgement import Judged


@command(
    short_help="Check a result without any solver.",
    examples=(
        "optplan verify boa-two-classes result.json",
        "optplan solve boa-newtrace --budget 90gpu -o result.json && optplan verify boa-newtrace result.json",
        "optplan verify mine.yaml result.json --as-given --gap 1e-3 --json",
    ),
)
@amendments
def verify(
    instance_name: str = INSTANCE,
    result_path: Path = argument(metavar="RESULT", type=FILE),
    *,
    gap: float = option(type=GAP, default=1e-6, show_default=True, help="Relative gap within which a plan is optimal."),
    as_given: bool = option(is_flag=True, help="Refuse a result of an instance that was changed from the one given."),
    jobs: Path | None = option(type=FILE, help="Of an audit: the table of the jobs, whose number and sizes it is of."),
    trust: bool = option(is_flag=True, help="Exit with 0 when nothing is wrong, though not all could be checked."),
    time_limit: float = option(
        default=f"{VERIFY_LIMIT_S:g}s", type=TIME, help="Processor time after which certificates are taken on trust."
    ),
    as_json: bool,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Check a RESULT, or an audit, against the INSTANCE it was made for.

    Objective, GPU use and every constraint are computed again from the decisions, and the bound from its certificates.
    The first line says what the result is: optimal only where its plan lies within --gap of its bound, whatever gap was
    asked for when it was made, and else within how much of it; what was changed in the instance, as the result says
    (the changes are made again, unless --as-given refuses them); and what is taken on trust.

    Exits with 5 when a check fails, and with 6 when none fails but not all that is claimed could be checked: a bound or
    a shadow price is an engine's word, say, or the time was too short. With --trust that ends with 0. Of an audit the
    bounds are derived again from their prices; what jobs there were, and what they had, is on trust without --jobs.
    """
    from optplan.instances.files import LARGEST_RESULT
    from optplan.instances.parsing import is_audit, parse_judged, parse_result
    from optplan.reporting.boa.breakdown import require_boa
    from optplan.reporting.verification_tables import say_verdict, verification_table
    from optplan.verification import verify_capped

    instance = read_amended(instance_name, changes)
    data = optplan.read_data(result_path, most_bytes=LARGEST_RESULT)
    if jobs is not None and not is_audit(data):
        raise UsageError("--jobs: only audits are of jobs; leave it out")
    trace = None if jobs is None else optplan.read_trace(jobs, require_boa(instance))
    given: optplan.Result[optplan.Solution] | Judged
    if is_audit(data):
        if "audit" not in wings.brought("RECORDS"):
            raise UsageError("RESULT: this copy of optplan has nothing that reads audits (optplan.lab); add it")
        given = parse_judged(resolve_name(wings.brought("RECORDS")["audit"]), data, "an audit", path=result_path.name)
    else:
        given = parse_result(data, path=result_path.name)
    verification = verify_capped(instance, given, jobs=trace, gap=gap, as_given=as_given, time_limit_s=time_limit)
    if as_json:
        stated: dict[str, Any] = {"status": None, "gap": None, "proven": verification.proven, "changes": []}
        stated |= {"on_trust": [], "ok": verification.ok, "nothing_wrong": verification.nothing_wrong}
        print_json(stated | verification.to_json_data())
    else:
        print_answer(say_verdict(instance, given, verification, gap), "", verification_table(verification))
    if not verification.nothing_wrong:
        return VerificationError.exit_code
    return 0 if verification.ok or trust else EXIT_ON_TRUST
