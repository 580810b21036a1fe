"""Running plans: a control loop that follows a plan's segments on executors, with a journal from which it can go on.

Exports for schedulers, and services that hand out widths, stand here too. The public names are in ``__init__.pyi``.
"""

from optplan.public_names import load_on_use

__getattr__, __all__ = load_on_use(__name__, __file__)

COMMANDS = {
    "run": "optplan.execution.cli.running:run",
    "status": "optplan.execution.cli.running:status",
    "logs": "optplan.execution.cli.running:logs",
    "stop": "optplan.execution.cli.running:stop",
    "serve": "optplan.execution.cli.serving:serve",
    "export": "optplan.execution.cli.exporting:export",
    "submit": "optplan.execution.cli.exporting:submit",
    "promote": "optplan.execution.cli.exporting:promote",
}
FOLDERS = "optplan.execution.cli.running:build_pages"
REPORTS = "optplan.execution.cli.live:serve_report"
LISTS = {"exporters": "optplan.execution.exports.folder:list_exporters"}
