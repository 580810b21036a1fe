#!/usr/bin/env bash
# Submits a job of a class: submit.sh NAME WAY. Its later segments are submitted by those before them.
# `optplan submit` chooses the way.
@STREAM@step=${steps%% *}
id=$(OPTPLAN_JOB=$name sbatch --parsable --export=ALL --job-name="$name" "jobs/$step.sbatch")
printf '%s\t%s\n' "$step" "${id%%;*}" | tee -a submitted.tsv
