#!/usr/bin/env bash
# @PLAN_ID@
@OPTIONS@
set -uo pipefail
cd -- "$SLURM_SUBMIT_DIR"
code=0
[[ -z ${SLURM_CPUS_PER_TASK:-} ]] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
@MEMBER@srun @RUN@ || code=$?
if ((code != 0 && code != 4 && code != 124 && ${SLURM_RESTART_COUNT:-0} < @RETRIES@)); then  # 4 and 124: the time is over
  scontrol requeue "$SLURM_JOB_ID" && sleep 600  # ends this run of the job
fi
((code == 0)) || exit "$code"
