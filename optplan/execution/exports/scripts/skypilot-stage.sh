#!/usr/bin/env bash
# Runs this node's trials of a stage, each on GPUs of its own; the first node waits for all, and decides who goes on.
# It fails where nobody does, so that no nodes are rented for the next stage: stage.sh STEP NODES GPUS SIZE NEXT
#
# NODES and GPUS are what one trial holds: so many nodes, and so many GPUs on each; SIZE is how many GPUs a node has.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
step=$1 nodes=$2 gpus=$3 size=$4 next=$5
count=$SKYPILOT_NUM_NODES rank=$SKYPILOT_NODE_RANK task=$SKYPILOT_TASK_ID
# Groups of NODES nodes have one trial at a time, single nodes as many as their GPUs are enough for.
slots=1
((nodes > 1)) || slots=$((size / gpus))
groups=$((count / nodes))
if ((slots == 0 || groups == 0)); then
  echo "stage.sh: a trial needs $nodes nodes of $gpus GPUs, and there are $count of $size" >&2
  exit 1
fi
group=$((rank / nodes))
export OPTPLAN_NODE_RANK=$((rank % nodes))
mapfile -t trials <"$here/members/$step.txt"
# What has failed for good leaves a mark of this task: a new one tries again.
has_failed() { [[ $(cat "$here/trials/$1/failed-$step" 2>/dev/null) == "$task" ]]; }
run() {
  local place try code
  for ((place = group * slots + $1; place < ${#trials[@]}; place += groups * slots)); do
    ! has_failed "${trials[place]}" || continue
    for ((try = 0; try <= @RETRIES@; try++)); do
      code=0
      CUDA_VISIBLE_DEVICES=$(seq -s , $(($1 * gpus)) $((($1 + 1) * gpus - 1))) MASTER_PORT=$((29500 + $1)) \
        bash "$here/launch.sh" "$step" $((place + 1)) || code=$?
      ((code != 0)) || break
      echo "stage.sh: ${trials[place]} failed in $step" >&2
      ((code != 143)) || return 0 # the node is asked to end
      ((code != 4 && code != 124)) || break # its time is over
    done
    if ((code != 0 && OPTPLAN_NODE_RANK == 0)); then
      mkdir -p "$here/trials/${trials[place]}"
      printf '%s\n' "$task" >"$here/trials/${trials[place]}/failed-$step"
    fi
  done
}
if ((group < groups)); then
  MASTER_ADDR=$(sed -n "$((group * nodes + 1))p" <<<"$SKYPILOT_NODE_IPS")
  export MASTER_ADDR
  for ((slot = 0; slot < slots; slot++)); do
    run "$slot" &
  done
  wait
fi
((rank == 0)) || exit 0
for trial in "${trials[@]}"; do
  until [[ -e $here/trials/$trial/ended-$step ]] || has_failed "$trial"; do
    sleep 5 # other nodes' trials; what they write is seen here after seconds
  done
done
[[ $next != --winner ]] || exec @OPTPLAN@ promote "$here" --winner
code=0
@OPTPLAN@ promote "$here" "$next" || code=$?
if ((code == 0)) && [[ ! -s $here/members/$next.txt ]]; then
  code=1
fi
((code == 0)) || @OPTPLAN@ promote "$here" --winner || true
exit "$code"
