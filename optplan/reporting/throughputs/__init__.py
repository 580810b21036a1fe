"""What people look at of jobs with measured speeds: which VMs, how many, in which configuration."""
