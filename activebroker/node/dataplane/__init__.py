"""Events on their way: outlet, flow, inlet, stage. Start with `plane.py`."""
