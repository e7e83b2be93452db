"""Events on their way: outlet, flow, port, stage. Start with `plane.py`."""
