"""Say how a job has ended."""

import os
import sys

state = os.environ.get("OPTPLAN_TEST_STATE", "FAILED")
sys.stdout.write(f"JobId={sys.argv[3]}\n   JobState={state} Reason=None\n")
