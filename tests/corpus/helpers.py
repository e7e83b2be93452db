"""What the filters of several modules share, as a code base has it in its own `helpers`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

PRIVATE_PREFIXES = ("10.", "192.168.", "127.")
_INSTANCE_ROLE = re.compile(r"^arn:aws:sts::\d{12}:assumed-role/")


def deep_get(dictionary: Any, *keys: str, default: Any = None) -> Any:
    """The value at the end of a way of keys, or the default where the way ends before."""
    value = dictionary
    for key in keys:
        if not isinstance(value, Mapping):
            return default
        value = value.get(key)
    return default if value is None else value


class Record(dict[str, Any]):
    """A log record: a dict that can be asked for nested values."""

    def deep_get(self, *keys: str, default: Any = None) -> Any:
        """The value at the end of a way of keys, or the default where the way ends before."""
        value: Any = self
        for key in keys:
            if not isinstance(value, Mapping):
                return default
            value = value.get(key)
        return default if value is None else value


def is_private(address: str) -> bool:
    """Whether an address belongs to one of the networks in the house."""
    return address.startswith(PRIVATE_PREFIXES)


def is_assumed_role(arn: str) -> bool:
    return bool(_INSTANCE_ROLE.match(arn))


def between(value: float, low: float, high: float) -> bool:
    """Whether a value lies in a closed interval."""
    return low <= value <= high


def percent_change(old: float, new: float) -> float:
    return (new - old) / old * 100.0


def clamp(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


def normalized(text: str | None) -> str:
    """A text as it is compared: no blanks around it, lower case, empty for None."""
    return (text or "").strip().lower()


def matches_any(text: str, words: tuple[str, ...]) -> bool:
    """Whether one of the words occurs in the text, in any case."""
    lowered = text.lower()
    return any(word in lowered for word in words)


def documented(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a rule as documented; calls through."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return wrapper


def severity(level: str) -> Callable[[Callable[[R], bool]], Callable[[R], bool]]:
    """Gives a rule a level that the alerting reads; the rule stays what it is."""

    def decorate(rule: Callable[[R], bool]) -> Callable[[R], bool]:
        rule.level = level  # type: ignore[attr-defined]
        return rule

    return decorate
