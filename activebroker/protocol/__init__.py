"""What nodes say to each other, and nothing that decides. Start with `messages.py`."""
