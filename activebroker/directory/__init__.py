"""The graph of channels, and what changes it. Start with `directory.py`, and `graph.py` for the
picture that it keeps.
"""
