"""Running plans: a control loop that follows a plan's segments on executors, with a journal from which it can go on."""
