"""When jobs that may wait had better start, where prices follow the hour of the day."""
