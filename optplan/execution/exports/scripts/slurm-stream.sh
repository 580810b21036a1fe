id=$(OPTPLAN_JOB=$name sbatch --parsable --export=ALL --job-name="$name" "jobs/$step.sbatch")
printf '%s\t%s\n' "$step" "${id%%;*}" | tee -a submitted.tsv
