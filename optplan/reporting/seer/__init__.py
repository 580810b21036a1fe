"""How the searches that SEER plans are shown: in words, as tables, as a picture, as a page."""
