"""Commands that replay traces and run benchmark suites."""
