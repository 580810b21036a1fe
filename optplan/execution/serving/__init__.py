"""Long-lived services: what they have written down, who may ask them, and what they are told from outside."""
