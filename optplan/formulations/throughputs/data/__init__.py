"""The instance, its parts and its decisions: frozen, validated, with units in the names."""
