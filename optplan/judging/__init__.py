"""What the judges of all formulations share: best paths, and the enumeration of what a bound leaves open."""
