"""The codec between dataclasses and Arrow columns. Start with `annotations.py`."""
