"""BOA on terminals and pages."""
