"""The graph of channels, and what changes it. Start with `directory.py`; `graph.py` is the picture
of the fabric.
"""
