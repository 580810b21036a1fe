"""Instances: file formats, readers of public traces and profiles, generators, and the library of named ones."""
