#!/usr/bin/env bash
# A training run of lines of shell: it counts iterations in its checkpoint, and its loss falls towards its own rate.
# It fails once where FAIL_ONCE names the trial, after it has stored a checkpoint.
set -euo pipefail
rate=${RATE:-${OPTPLAN_VALUE_1:-0.5}}
[[ $OPTPLAN_NODE_RANK == 0 ]] || { echo "node $OPTPLAN_NODE_RANK of $OPTPLAN_NODES, batch ${OPTPLAN_BATCH:-none}"; exit 0; }
echo $$ >"$OPTPLAN_SAVE/../pid"
count=0
[[ -z $OPTPLAN_CHECKPOINT ]] || count=$(cat "$OPTPLAN_CHECKPOINT/count")
goal=${OPTPLAN_ITERATIONS:-${OPTPLAN_EPOCHS:-}}
echo "$OPTPLAN_TRIAL $OPTPLAN_SEGMENT from $count on $* GPUs, at $MASTER_ADDR" >>"$OPTPLAN_SAVE/../history"
while [[ -z $goal ]] || ((count < goal)); do
  count=$((count + 1))
  [[ -n $goal && -z ${PACE:-} ]] || sleep "${PACE:-0.1}"
  awk -v r="$rate" -v n="$count" 'BEGIN { printf "{\"loss\": %.6f}\n", r + 1 / n }' >>"$OPTPLAN_METRICS"
  echo "$count" >"$OPTPLAN_SAVE/count.new"
  mv "$OPTPLAN_SAVE/count.new" "$OPTPLAN_SAVE/count"
  if [[ ${FAIL_ONCE:-} == "$OPTPLAN_TRIAL" && ! -e $OPTPLAN_SAVE/../failed ]]; then
    touch "$OPTPLAN_SAVE/../failed"
    exit 7
  fi
done
