"""Commands that measure networks and all-reduces, and learn from measurements."""
