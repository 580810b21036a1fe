"""SEER: the best search for hyperparameters that a deadline and a budget can buy."""
