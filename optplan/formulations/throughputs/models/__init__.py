"""The sheet, and the statement of the problem for general engines."""
