"""What people look at of Srift: training jobs, the VMs that train them, and what an iteration is made of."""
