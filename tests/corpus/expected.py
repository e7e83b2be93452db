"""Reads the text of a predicate, as README.md describes it, and evaluates it as Python would.

This is the corpus's own reading, independent of the analysis that is judged by it. Predicates and
terms are one grammar here: a text is trusted to be sensible.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any

Value = Callable[[Any], Any]
"""What a part of the text stands for: a function of the content."""

_TOKEN = re.compile(
    r"\s*(?:(?P<bytes>X'[0-9a-f]*')|(?P<text>'(?:[^']|'')*')|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign><=|>=|!=|//|[-+*/%=<>()\[\].,]))"
)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SUMS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_TYPES = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list": list,
    "dict": dict,
    "tuple": tuple,
}


def _deep_get(value: Any, *keys_and_default: Any) -> Any:
    *keys, default = keys_and_default
    for key in keys:
        if not isinstance(value, Mapping):
            return default
        value = value.get(key)
    return default if value is None else value


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "startswith": lambda text, start: text.startswith(start),
    "endswith": lambda text, end: text.endswith(end),
    "contains": lambda container, item: item in container,
    "search": lambda text, pattern: re.search(pattern, text) is not None,
    "match": lambda text, pattern: re.match(pattern, text) is not None,
    "fullmatch": lambda text, pattern: re.fullmatch(pattern, text) is not None,
    "isinstance": lambda value, *names: isinstance(value, tuple(_TYPES[n] for n in names)),
    "DEFINED": lambda _: True,
    "get": lambda mapping, key, default: mapping.get(key, default),
    "deep_get": _deep_get,
    "abs": abs,
    "len": len,
    "min": min,
    "max": max,
    "round": round,
    "int": int,
    "float": float,
    "str": str,
    "lower": lambda text: text.lower(),
    "upper": lambda text: text.upper(),
    "casefold": lambda text: text.casefold(),
    "strip": lambda text, *chars: text.strip(*chars),
    "lstrip": lambda text, *chars: text.lstrip(*chars),
    "rstrip": lambda text, *chars: text.rstrip(*chars),
    "year": lambda at: at.year,
    "month": lambda at: at.month,
    "day": lambda at: at.day,
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": lambda at: at.second,
    "weekday": lambda at: at.weekday(),
    "date": lambda at: at.date(),
}


def evaluate(text: str, content: object) -> bool | None:
    """True, False, or None for *raised*."""
    value = parse(text)
    try:
        return bool(value(content))
    except Exception:  # noqa: BLE001 - whatever the filter would raise here is this result
        return None


@cache
def parse(text: str) -> Value:
    """The text as a function of the content. Raises: ValueError, where it is none."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _TOKEN.match(text, position)
            if found is None:
                raise ValueError(f"{text!r}: what is {text[position:]!r}?")
            self._tokens.append((found.lastgroup or "", found[found.lastgroup or 0]))
            position = found.end()
        self._next = 0

    def whole(self) -> Value:
        value = self._or()
        if self._next != len(self._tokens):
            raise ValueError(f"{self._text!r}: too much from {self._peek()!r}")
        return value

    def _peek(self) -> str:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        """The next token if it is one of these, else nothing."""
        token = self._peek()
        if token in wanted:
            self._next += 1
            return token
        return ""

    def _need(self, wanted: str) -> None:
        if not self._take(wanted):
            raise ValueError(f"{self._text!r}: {wanted!r} expected at {self._peek()!r}")

    def _or(self) -> Value:
        parts = [self._and()]
        while self._take("OR"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else lambda c: any(part(c) for part in parts)

    def _and(self) -> Value:
        parts = [self._not()]
        while self._take("AND"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else lambda c: all(part(c) for part in parts)

    def _not(self) -> Value:
        if self._take("NOT"):
            part = self._not()
            return lambda c: not part(c)
        return self._comparison()

    def _comparison(self) -> Value:
        left = self._sum()
        if sign := self._take(*_COMPARISONS):
            right, compare = self._sum(), _COMPARISONS[sign]
            return lambda c: compare(left(c), right(c))
        if self._take("IS"):
            negated = bool(self._take("NOT"))
            self._need("NULL")
            return lambda c: (left(c) is None) is not negated
        negated = bool(self._take("NOT"))
        if self._take("IN"):
            members = self._arguments()
            return lambda c: (left(c) in [m(c) for m in members]) is not negated
        return left

    def _sum(self) -> Value:
        return self._series(_SUMS, self._product)

    def _product(self) -> Value:
        return self._series(_PRODUCTS, self._factor)

    def _series(
        self, signs: dict[str, Callable[[Any, Any], Any]], operand: Callable[[], Value]
    ) -> Value:
        value = operand()
        while sign := self._take(*signs):
            value = _binary(signs[sign], value, operand())
        return value

    def _factor(self) -> Value:
        if self._take("-"):
            value = self._factor()
            return lambda c: -value(c)
        value = self._primary()
        while sign := self._take(".", "["):
            if sign == ".":
                value = _attribute(value, self._tokens[self._next][1])
                self._next += 1
            else:
                value = _binary(_item, value, self._or())
                self._need("]")
        return value

    def _primary(self) -> Value:
        if self._peek() == "(":
            parts = self._arguments()
            if len(parts) == 1:
                return parts[0]
            return lambda c: tuple(part(c) for part in parts)
        kind, token = self._tokens[self._next]
        self._next += 1
        if kind == "text":
            return _constant(token[1:-1].replace("''", "'"))
        if kind == "bytes":
            return _constant(bytes.fromhex(token[2:-1]))
        if kind == "number":
            return _constant(int(token) if token.isdigit() else float(token))
        if kind == "word":
            return self._word(token)
        raise ValueError(f"{self._text!r}: a term expected at {token!r}")

    def _word(self, word: str) -> Value:
        match word:
            case "TRUE" | "FALSE" | "NULL":
                return _constant({"TRUE": True, "FALSE": False, "NULL": None}[word])
            case "CASE":
                self._need("WHEN")
                test = self._or()
                self._need("THEN")
                yes = self._or()
                self._need("ELSE")
                no = self._or()
                self._need("END")
                return lambda c: yes(c) if test(c) else no(c)
            case "DATE":
                return _constant(date.fromisoformat(self._literal()))
            case "TIMESTAMP":
                return _constant(datetime.fromisoformat(self._literal()))
            case "INTERVAL":
                return _constant(timedelta(seconds=float(self._literal())))
            case "content":
                return lambda c: c
        if self._peek() == "(":
            function, arguments = _FUNCTIONS[word], self._arguments()
            return lambda c: function(*(argument(c) for argument in arguments))
        if word.isupper():
            raise ValueError(f"{self._text!r}: {word} is out of place")
        return _attribute(lambda c: c, word)

    def _literal(self) -> str:
        token = self._tokens[self._next][1]
        self._next += 1
        return token.strip("'")

    def _arguments(self) -> list[Value]:
        self._need("(")
        found: list[Value] = []
        while not self._take(")"):
            found.append(self._or())
            if self._peek() != ")":
                self._need(",")
        return found


def _constant(value: object) -> Value:
    return lambda _: value


def _binary(function: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    return lambda c: function(left(c), right(c))


def _item(container: Any, key: Any) -> Any:
    return container[key]


def _attribute(owner: Value, name: str) -> Value:
    def read(content: Any) -> Any:
        value = getattr(owner(content), name)
        return value.name if isinstance(value, Enum) else value

    return read
