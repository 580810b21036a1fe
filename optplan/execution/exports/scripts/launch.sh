#!/usr/bin/env bash
# Runs the command of one step for one of its members, on one node: launch.sh STEP [MEMBER]
#
# MEMBER is the place of a trial in members/STEP.txt, from 1. A job of a stream is named by OPTPLAN_JOB. What has ended
# is not run again, so that a step can be started as often as need be.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
step=$1
member=${2:-1}
source "$here/steps/$step.sh"
if [[ ${OPTPLAN_EXPECTED:-$OPTPLAN_EXPORT} != "$OPTPLAN_EXPORT" ]]; then
  echo "launch.sh: $here holds export $OPTPLAN_EXPORT, and this job is of export $OPTPLAN_EXPECTED" >&2
  exit 1
fi
if [[ -n $OPTPLAN_WORKDIR ]] && ! cd -- "$OPTPLAN_WORKDIR"; then
  echo "launch.sh: $OPTPLAN_WORKDIR, where the command runs, is no folder here; export with another --workdir" >&2
  exit 1
fi

case $OPTPLAN_KIND in
  search)
    list=$here/members/$step.txt
    if [[ ! -f $list ]]; then
      echo "launch.sh: nobody has decided who is in $step; run: optplan promote $here $step" >&2
      exit 1
    fi
    OPTPLAN_TRIAL=$(sed -n "${member}p" "$list")
    if [[ -z $OPTPLAN_TRIAL ]]; then
      echo "launch.sh: place $member of $step stays empty"
      exit 0
    fi
    place=trials/$OPTPLAN_TRIAL
    line=$((10#$OPTPLAN_TRIAL))
    ;;
  fleet)
    OPTPLAN_TRIAL=job
    place=trials/job
    line=1
    ;;
  stream)
    OPTPLAN_TRIAL=${OPTPLAN_JOB:?launch.sh: OPTPLAN_JOB names no job; start it with submit.sh}
    place=trials/$OPTPLAN_TRIAL
    line=0
    ;;
esac

ended=$here/$place/ended-$step
# The mark holds the metrics by which the trial is ranked: one file, there as a whole or not at all.
end() {
  if [[ -f $OPTPLAN_METRICS ]]; then
    tail -c 16777216 "$OPTPLAN_METRICS" >"$ended.new"
  else
    : >"$ended.new"
  fi
  mv -- "$ended.new" "$ended"
}
if [[ -e $ended ]]; then
  echo "launch.sh: $OPTPLAN_TRIAL has ended $step before"
  exit 0
fi
OPTPLAN_SAVE=$here/$place/checkpoint
OPTPLAN_METRICS=$here/$place/metrics-$step.jsonl
mkdir -p "$OPTPLAN_SAVE"

# One at a time, whoever starts it again: the lock is held until the command itself has ended. Where the disk knows no
# locks, nobody waits.
if [[ ${OPTPLAN_NODE_RANK:-${SLURM_PROCID:-${SKYPILOT_NODE_RANK:-${PET_NODE_RANK:-0}}}} == 0 ]] && command -v flock >/dev/null; then
  exec 8>>"$here/$place/lock"
  code=0
  for ((waited = 0; waited <= OPTPLAN_GRACE; waited++)); do
    flock --nonblock 8 && code=0 || code=$?
    ((code == 1)) || break # 0 has it, others than 1 cannot have locks
    ((waited > 0)) || echo "launch.sh: another run of $OPTPLAN_TRIAL has not ended; waits for it" >&2
    ((waited == OPTPLAN_GRACE)) || sleep 1
  done
  if ((code == 1)); then
    echo "launch.sh: another run of $OPTPLAN_TRIAL has not ended; this one is not started" >&2
    exit 1
  fi
  if [[ -e $ended ]]; then
    echo "launch.sh: $OPTPLAN_TRIAL has ended $step before"
    exit 0
  fi
fi

OPTPLAN_CHECKPOINT=
if [[ -n $(ls -A "$OPTPLAN_SAVE") ]]; then
  OPTPLAN_CHECKPOINT=$OPTPLAN_SAVE
fi
if ((line > 0)) && [[ -f $here/configurations.sh ]]; then
  eval "$(sed -n "${line}p" "$here/configurations.sh")"
fi

# Who is where: what the scheduler says, in one set of names.
if [[ -n ${SLURM_JOB_ID:-} ]]; then
  OPTPLAN_NODE_RANK=${SLURM_PROCID:-0} # counts over all groups of a het job
  MASTER_ADDR=$(scontrol show hostnames "${SLURM_JOB_NODELIST_HET_GROUP_0:-$SLURM_JOB_NODELIST}" | head -n 1)
  MASTER_PORT=$((15000 + ${SLURM_HET_JOB_ID:-$SLURM_JOB_ID} % 20000))
elif [[ -n ${SKYPILOT_NODE_IPS:-} ]]; then
  OPTPLAN_NODE_RANK=${OPTPLAN_NODE_RANK:-$SKYPILOT_NODE_RANK}
  MASTER_ADDR=${MASTER_ADDR:-$(head -n 1 <<<"$SKYPILOT_NODE_IPS")}
elif [[ -n ${PET_MASTER_ADDR:-} ]]; then
  OPTPLAN_NODE_RANK=${PET_NODE_RANK:-0}
  MASTER_ADDR=$PET_MASTER_ADDR
  MASTER_PORT=${PET_MASTER_PORT:-29500}
fi
OPTPLAN_NODE_RANK=${OPTPLAN_NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
MASTER_PORT=${MASTER_PORT:-29500}
OPTPLAN_MEETING=$OPTPLAN_PLAN-$step-$OPTPLAN_TRIAL
export OPTPLAN_TRIAL OPTPLAN_SAVE OPTPLAN_METRICS OPTPLAN_CHECKPOINT OPTPLAN_NODE_RANK OPTPLAN_MEETING
export MASTER_ADDR MASTER_PORT

# A hard deadline counts from the first job's begin. Who is in a step is not decided again once one of them has begun.
[[ -s $here/begun ]] || date +%s >"$here/begun"
if [[ -n $OPTPLAN_DEADLINE ]] && (($(date +%s) - $(cat "$here/begun") > OPTPLAN_DEADLINE)); then
  echo "launch.sh: the $OPTPLAN_DEADLINE s since the first job began have passed; nothing more is started" >&2
  exit 4
fi
began=$here/$place/began-$step
if [[ ! -s $began ]]; then
  date +%s >"$began"
elif [[ -n $OPTPLAN_SECONDS ]]; then # time is up for those who were down as well
  passed=$(($(date +%s) - $(cat "$began")))
  ((passed <= 0)) || OPTPLAN_SECONDS=$((${OPTPLAN_SECONDS%.*} - passed))
  if [[ $OPTPLAN_SECONDS != *.* ]] && ((OPTPLAN_SECONDS <= 0)); then
    echo "launch.sh: the time of $OPTPLAN_TRIAL in $step has passed"
    ((OPTPLAN_NODE_RANK > 0)) || end
    exit 0
  fi
fi
code=0
started=$here/$place/started-$OPTPLAN_NODE_RANK
# In a shell of its own, so that no variable of the user's is one of ours.
(
  environment
  setup
  arguments
  date +%s >"$started"
  exec -- timeout -s TERM -k "$OPTPLAN_GRACE" "${OPTPLAN_SECONDS:-$OPTPLAN_LIMIT}" "${argv[@]}"
) &
child=$!
asked=
trap 'asked=1; kill -TERM "$child" 2>/dev/null || true' TERM INT
# A signal ends the first wait; the command may need a while to store its state.
while kill -0 "$child" 2>/dev/null; do
  code=0
  wait "$child" || code=$?
done
wait "$child" 2>/dev/null || code=$?
# A program that is asked to end stores its state, and ends as if it had done all of its work.
if [[ -n $asked ]]; then
  echo "launch.sh: $OPTPLAN_TRIAL was asked to end before $step had" >&2
  exit 143
fi
passed=$(($(date +%s) - $(cat "$started" 2>/dev/null || date +%s)))
limit_s=${OPTPLAN_SECONDS:-$OPTPLAN_LIMIT}
# Before time is up, 137 is a kill from elsewhere, such as for want of memory, and 124 the command's own.
if ((code == 124 || code == 137)) && ((passed >= ${limit_s%.*})); then
  if [[ -z $OPTPLAN_SECONDS ]]; then
    echo "launch.sh: $OPTPLAN_TRIAL was ended after the $OPTPLAN_LIMIT s that $step may take" >&2
    exit 124
  fi
elif ((code != 0)); then
  ((code != 124)) || code=1
  exit "$code"
fi
((OPTPLAN_NODE_RANK > 0)) || end
