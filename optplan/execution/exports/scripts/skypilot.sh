#!/usr/bin/env bash
# Launches the plan as managed jobs. The files of this folder have to be in the bucket that the tasks mount.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
if ! mkdir launched 2>/dev/null; then
  echo "submit.sh: was launched before; when sky jobs queue shows that it has ended, rmdir launched" >&2
  exit 1
fi
trap 'code=$?; ((code == 0)) || rmdir launched' EXIT
sky jobs launch --yes --detach-run tasks/@NAME@.yaml
