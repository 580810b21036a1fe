"""One job on spot VMs of several zones under a deadline: replays, published policies, the hindsight optimum."""
