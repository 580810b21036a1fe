#!/usr/bin/env bash
# Runs a job of a class: submit.sh NAME WAY. `optplan submit` chooses the way.
@STREAM@for step in $steps; do
  for ((try = 0; ; try++)); do
    code=0
    OPTPLAN_JOB=$name bash launch.sh "$step" >>"logs/$name.log" 2>&1 || code=$?
    ((code != 0)) || break
    ((try < @RETRIES@ && code != 4 && code != 124 && code != 143)) || { echo "submit.sh: $step failed; see logs/$name.log" >&2; exit 1; }
  done
done
