"""Simulation: the same nodes as in production, in virtual time, on a network that fails."""
