"""``optplan verify``: check a result against its instance without any solver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optplan.cli.amending import amendments, read_amended, restore
from optplan.cli.commands import Command
from optplan.cli.console import print_answer, print_json
from optplan.cli.failures import EXIT_ON_TRUST
from optplan.cli.options import FILE, TIME, instance_argument
from optplan.errors import VerificationError
from optplan.progress import VERIFY_LIMIT_S


@click.command(
    cls=Command,
    short_help="Check a result without any solver.",
    examples=(
        "optplan verify boa-two-classes result.json",
        "optplan solve boa-newtrace --budget 90gpu -o result.json && optplan verify boa-newtrace result.json",
        "optplan verify mine.yaml result.json --json",
    ),
)
@instance_argument
@click.argument("result_path", metavar="RESULT", type=FILE)
@amendments
@click.option("--trust", is_flag=True, help="Exit with 0 when nothing is wrong, though not all could be checked.")
@click.option(
    "--time-limit", default=f"{VERIFY_LIMIT_S:g}s", type=TIME, help="After this, certificates are taken on trust."
)
def verify(
    instance_name: str,
    result_path: Path,
    *,
    trust: bool,
    time_limit: float,
    as_json: bool,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Check a RESULT against the INSTANCE it was made for.

    Objective, GPU use and every constraint are computed again from the decisions, and the bound from its certificates.
    What is taken on trust is named. Changes of the instance that the result carries are made again.

    Exits with 5 when a check fails, and with 6 when none fails but optimality or infeasibility could not be checked.
    """
    from optplan.instances.files import read_result
    from optplan.verification import verify as judge

    instance = read_amended(instance_name, changes)
    result = read_result(result_path)
    verification = judge(restore(instance, result), result, time_limit_s=time_limit)
    if as_json:
        stated = {"ok": verification.ok, "nothing_wrong": verification.nothing_wrong}
        print_json(stated | verification.to_json_data())
    else:
        from optplan.reporting.verification_tables import verification_table

        print_answer(verification_table(verification))
    if not verification.nothing_wrong:
        return VerificationError.exit_code
    return 0 if verification.ok or trust else EXIT_ON_TRUST
