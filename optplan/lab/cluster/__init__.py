"""The cluster: jobs of a trace arrive, a policy says who holds how many GPUs, and every GPU-second is accounted for."""
