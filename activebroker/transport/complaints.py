"""Warnings about what others do, who may do it thousands of times a second."""

from __future__ import annotations

import logging
import math
import time

EVERY = 10.0  # seconds between warnings of one kind
KINDS = 1000  # that are remembered


class Complaints:
    """Logs the first of each kind at once, and then how many there were."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def say(self, kind: str, what: str) -> None:
        now = time.monotonic()
        if now - self._said.get(kind, -math.inf) < EVERY:
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        if len(self._said) >= KINDS:
            self._said.clear()
            self._unsaid.clear()
        self._said[kind] = now
        unsaid = self._unsaid.pop(kind, 0)
        self._log.warning("%s%s", what, f" ({unsaid} more since this was said)" if unsaid else "")
