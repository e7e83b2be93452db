"""An enum with the name, and the members' names, of another."""

from __future__ import annotations

from enum import Enum


class Color(Enum):
    RED = "red"
    BLUE = 2
    GREY = 3
