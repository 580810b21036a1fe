"""The sheet, and the statements of the problem for general engines."""
