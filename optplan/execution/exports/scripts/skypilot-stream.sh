#!/usr/bin/env bash
# Launches the plan as managed jobs. The files of this folder have to be in the bucket that the tasks mount.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
# A job of a class: submit.sh NAME WAY. `optplan submit` chooses the way.
name=$1 way=$2
[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || { echo "submit.sh: no name for a job: $name" >&2; exit 2; }
[[ -e tasks/$way.yaml ]] || { echo "submit.sh: there is no way $way" >&2; exit 2; }
sky jobs launch --yes --detach-run --name "$name" --env "OPTPLAN_JOB=$name" "tasks/$way.yaml"
