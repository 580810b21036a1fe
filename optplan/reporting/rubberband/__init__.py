"""What people look at of RubberBand: searches, plans for them, and how the cluster changes its size."""
