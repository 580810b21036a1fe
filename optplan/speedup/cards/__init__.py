"""Speedups of dense decoder models from a model card: parameters, sequence, batch and the GPUs they train on."""
