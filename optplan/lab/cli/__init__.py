"""Commands that replay and read traces."""
