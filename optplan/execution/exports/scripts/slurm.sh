#!/usr/bin/env bash
# Submits every job of the plan, each after those that it waits for. Submitted again, what has ended is not run again.
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
@LOCK@left=$(
  squeue --noheader --me --format='%F %Z' | sort -u | while read -r id where; do
    if [[ $where == "$PWD" ]]; then printf ' %s' "$id"; fi
  done
)
if [[ -n $left ]]; then
  echo "submit.sh: jobs of this folder are still there; wait, or end them first: scancel$left" >&2
  exit 1
fi
mkdir -p logs trials
declare -A job
submit() {
  local name=$1 id
  shift
  id=$(sbatch --parsable "$@" "jobs/$name.sbatch")
  id=${id%%;*}
  job[$name]=${job[$name]:+${job[$name]}:}$id
  printf '%s\t%s\n' "$name" "$id" | tee -a submitted.tsv
}
