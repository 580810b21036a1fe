"""What decisions amount to and what no decisions can beat, written without sight of any solver."""
