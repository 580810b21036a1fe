"""The paper's algorithms and rivals, as printed."""
