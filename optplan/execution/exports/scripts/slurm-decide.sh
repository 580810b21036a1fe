#!/usr/bin/env bash
#SBATCH --job-name=@TAG@-@NAME@
#SBATCH --output=logs/@NAME@-%j.log
#SBATCH --ntasks=1
#SBATCH --time=0-00:10:00
@OPTIONS@
set -euo pipefail
cd -- "$SLURM_SUBMIT_DIR"
@SETUP@@OPTPLAN@ promote . @WHAT@
