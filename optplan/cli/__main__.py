"""``python -m optplan.cli``: the command line from a source tree."""

import sys

from optplan.cli import main

sys.exit(main())
