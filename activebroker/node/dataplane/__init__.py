"""Events on their way: outlet, flow, port, stage. Start with `exchange.py`."""
