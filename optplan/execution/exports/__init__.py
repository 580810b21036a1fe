"""Exports: a plan as the files of a scheduler that people have, with a launcher that their jobs start through."""
