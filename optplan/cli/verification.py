"""``optplan verify``: check a result against its instance without any solver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optplan.cli.console import print_answer, print_json
from optplan.cli.options import Command, amendments, instance_argument, read_amended
from optplan.errors import VerificationError


@click.command(
    cls=Command,
    short_help="Check a result without any solver.",
    examples=(
        "optplan verify boa-two-classes result.json",
        "optplan verify boa-newtrace result.json --budget 120gpu",
        "optplan verify mine.yaml result.json --json",
    ),
)
@instance_argument
@click.argument("result_path", metavar="RESULT", type=click.Path(path_type=Path))
@amendments
def verify(instance_name: str, result_path: Path, *, as_json: bool, **changes: Any) -> int:  # noqa: ANN401 - options
    """Check a RESULT against the INSTANCE it was made for.

    Objective, GPU use and every constraint are computed again from the decisions, and the bound from its certificates.
    What nobody can check cheaply is named. Give the options that changed the instance for the solve.

    Exits with 5 when a check fails.
    """
    from optplan.instances.files import read_result
    from optplan.verification import verify as judge

    verification = judge(read_amended(instance_name, changes), read_result(result_path))
    if as_json:
        print_json({"ok": verification.ok, **verification.to_json_data()})
    else:
        from optplan.reporting.verification_tables import verification_table

        print_answer(verification_table(verification))
    return 0 if verification.ok else VerificationError.exit_code
