"""Who holds which GPUs: a pure decision from a width table, the jobs that are there, and the nodes."""
