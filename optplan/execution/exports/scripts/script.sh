#!/usr/bin/env bash
# Runs the plan on this machine. Run again, what has ended is not run again.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
@LOCK@mkdir -p logs trials
# What is interrupted ends what it has started, each in its turn.
end() {
  local each
  trap '' INT TERM HUP
  for each in $(jobs -p); do
    kill -TERM "$each" 2>/dev/null || true
  done
  wait
  exit 143
}
trap end INT TERM HUP
# stage STEP MEMBERS AT_ONCE FIRST_GPU GPUS: its members, so many side by side, each on GPUs of its own
stage() {
  local slot
  trap end TERM
  for ((slot = 0; slot < $3; slot++)); do
    places "$1" "$2" "$3" "$slot" "$(seq -s , $(($4 + slot * $5)) $(($4 + (slot + 1) * $5 - 1)))" &
  done
  wait
}
places() {
  local place try code
  trap end TERM
  for ((place = $4 + 1; place <= $2; place += $3)); do
    for ((try = 0; try <= @RETRIES@; try++)); do
      code=0
      CUDA_VISIBLE_DEVICES=$5 bash launch.sh "$1" "$place" >>"logs/$1-$place.log" 2>&1 &
      wait "$!" || code=$?
      ((code != 0)) || break
      echo "submit.sh: place $place of $1 failed; see logs/$1-$place.log" >&2
      ((code != 4 && code != 124)) || break # its time is over
    done
  done
}
