"""Policies that say where a job runs next, one file each."""
