"""Decides from status reports which filters move from which broker to which."""
