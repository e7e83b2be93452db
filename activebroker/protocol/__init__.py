"""The messages that nodes send each other. Start with `messages.py`."""
