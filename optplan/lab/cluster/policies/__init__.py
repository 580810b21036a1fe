"""Who gets how many GPUs: BOA's plans, and what people would use instead; one file each."""
