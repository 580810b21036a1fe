"""Commands that run plans, export them and serve widths."""
