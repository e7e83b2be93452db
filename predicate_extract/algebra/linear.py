"""Regular expressions whose search takes time in proportion to the text, whatever the text.

Python's `re` goes back and tries again: `(a+)+$` takes years on a line of 60 letters. RE2 never
does, but reads some patterns differently. So a pattern is taken apart by Python's own parser and
written anew for RE2, from the constructs that both surely read alike; any other is refused. Only
whether something matches is asked, so what is greedy and which alternative wins do not matter.

What `\\d`, `\\w`, `\\s`, `\\b` and IGNORECASE mean beyond ASCII depends on the release of Unicode.
Patterns with one of these are decided for ASCII texts only, unless it is this Python's that counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import re2

from predicate_extract.algebra.cost import Undecided

MAX_STEPS = 100_000_000
"""Of a pattern's program, for one text: at the very worst a second."""
MAX_PATTERN = 4096  # characters
_MEMORY = 1 << 20  # bytes for a pattern's program

_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_FLAGS = re.ASCII | re.DOTALL | re.IGNORECASE | re.MULTILINE | re.UNICODE | re.VERBOSE
_ALPHABET = re.ASCII | re.UNICODE
_ESCAPE = r"\x{%x}"
NOTHING = r"[^\x{0}-\x{10ffff}]"
"""A pattern that is found nowhere."""
_SURROGATES = range(0xD800, 0xE000)


class NotLinear(ValueError):
    """This pattern may take longer, or means something else to RE2; the message names the part."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A pattern for RE2; `ascii`: only on ASCII texts does it mean the same."""

    regexp: Any
    size: int
    ascii: bool

    def anywhere(self, how: str) -> str:
        """The text of a pattern that is found anywhere in a text if this one matches it."""
        written = str(self.regexp.pattern, "ascii")
        start, end = "" if how == "search" else r"\A", r"\z" if how == "fullmatch" else ""
        return f"{start}(?:{written}){end}"

    def matches(self, how: str, text: str | bytes) -> bool:
        """Whether it matches: anywhere (`search`), at the start (`match`), or all (`fullmatch`).

        Raises: Undecided, where only Python's own `re` could say.
        """
        if self.ascii and not text.isascii():
            raise Undecided("the pattern is decided for ASCII texts only")
        if len(text) * self.size > MAX_STEPS:
            raise Undecided("the text is too long for this pattern")
        # To a pattern of bytes, each byte is a character.
        plain = text if isinstance(text, str) else text.decode("latin-1")
        try:
            return getattr(self.regexp, how)(plain.encode()) is not None
        except UnicodeEncodeError as error:
            raise Undecided("the text holds half of a pair of surrogates") from error


@lru_cache(maxsize=1024)
def linear(pattern: str | bytes, flags: int, how: str, *, beyond_ascii: bool = False) -> Linear:
    """The same pattern, to be matched in linear time by `how`: search, match or fullmatch.

    `beyond_ascii`: with the letters, digits and cases that this Python knows.

    Raises: NotLinear.
    """
    if len(pattern) > MAX_PATTERN:
        raise NotLinear("it is too large")
    try:
        parsed = _parser.parse(pattern, flags)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise NotLinear(f"it is no pattern: {error}") from error
    writer = _Writer(isinstance(pattern, bytes), how == "fullmatch", beyond_ascii)
    written = writer.sequence(parsed, parsed.state.flags, last=True)
    options = re2.Options()
    options.log_errors, options.max_mem, options.never_capture = False, _MEMORY, True
    try:
        regexp = re2.compile(written.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise NotLinear("it is too large") from error
    return Linear(regexp, regexp.programsize, writer.ascii)


class _Writer:
    """Writes a parsed pattern for RE2. `whole`: it has to match up to the text's end."""

    def __init__(self, of_bytes: bool, whole: bool, beyond_ascii: bool) -> None:
        self._beyond_ascii = beyond_ascii and not of_bytes
        self._of_bytes = of_bytes
        self._whole = whole
        self.ascii = False

    def sequence(self, parts: Any, flags: int, last: bool) -> str:
        """Some parts, one after the other; `last`: nothing follows them."""
        if flags & ~_FLAGS:
            raise NotLinear("of a flag like LOCALE")
        end = len(parts) - 1
        return "".join(
            self._part(str(op), what, flags, last and place == end)
            for place, (op, what) in enumerate(parts)
        )

    def _part(self, op: str, what: Any, flags: int, last: bool) -> str:
        match op:
            case "LITERAL":
                return self._characters([(op, what)], flags)
            case "NOT_LITERAL":
                return self._characters([("NEGATE", None), ("LITERAL", what)], flags)
            case "IN":
                return self._characters([(str(kind), value) for kind, value in what], flags)
            case "ANY":
                return r"(?s:.)" if flags & re.DOTALL else r"[^\n]"
            case "BRANCH":
                parts = (self.sequence(part, flags, last) for part in what[1])
                return f"(?:{'|'.join(parts)})"
            case "SUBPATTERN":
                _, added, removed, inner = what
                if added & _ALPHABET:
                    flags &= ~_ALPHABET
                return f"(?:{self.sequence(inner, (flags | added) & ~removed, last)})"
            case "MAX_REPEAT" | "MIN_REPEAT":
                low, high, inner = what
                return self._repeat(low, high, inner, flags)
            case "AT":
                return self._place(str(what), flags, last)
        raise NotLinear(f"of {_NAMES.get(op, op.lower())}")

    def _repeat(self, low: int, high: Any, inner: Any, flags: int) -> str:
        if high != 1 and inner.getwidth()[0] == 0:
            raise NotLinear("of a repeated part that may be empty")
        limit = "" if high == _parser.MAXREPEAT else str(high)
        return f"(?:{self.sequence(inner, flags, False)}){{{low},{limit}}}"

    def _place(self, place: str, flags: int, last: bool) -> str:
        many = flags & re.MULTILINE
        match place:
            case "AT_BEGINNING":
                return "(?m:^)" if many else r"\A"
            case "AT_BEGINNING_STRING":
                return r"\A"
            case "AT_END" if many:
                return "(?m:$)"
            case "AT_END" if last:  # before a line's end as well, if that ends the text
                return r"\z" if self._whole else r"\n?\z"
            case "AT_END_STRING":
                return r"\z"
            case "AT_BOUNDARY":
                self.ascii = self.ascii or not self._of_bytes
                return r"\b"
        raise NotLinear(r"of a $ that is not at its end" if place == "AT_END" else r"of \B")

    def _characters(self, items: list[tuple[str, Any]], flags: int) -> str:
        """One character of a set."""
        if not flags & re.IGNORECASE and not any(kind == "CATEGORY" for kind, _ in items):
            return _class(items, _ESCAPE)
        flags &= _ALPHABET | re.IGNORECASE
        if self._beyond_ascii:
            return _listed_beyond_ascii(_class(items, r"\U%08x"), flags)
        self.ascii = self.ascii or not self._of_bytes
        escape = r"\x%02x" if self._of_bytes else r"\U%08x"
        return _listed(_class(items, escape), flags, self._of_bytes)


def _class(items: list[tuple[str, Any]], escape: str) -> str:
    text = ""
    for kind, value in items:
        match kind:
            case "NEGATE":
                text = "^" + text
            case "LITERAL":
                text += escape % value
            case "RANGE":
                text += f"{escape % value[0]}-{escape % value[1]}"
            case "CATEGORY":
                text += _CATEGORIES[str(value)]
            case _:
                raise NotLinear(f"of {kind.lower()}")
    return f"[{text}]"


@cache
def _listed(text: str, flags: int, of_bytes: bool) -> str:
    """The characters of a set, as `re` sees them."""
    if of_bytes:
        byte = re.compile(text.encode(), flags).fullmatch
        found = [code for code in range(256) if byte(bytes([code]))]
    else:
        letter = re.compile(text, flags).fullmatch
        found = [code for code in range(128) if letter(chr(code))]
    return f"[{''.join(map(_ESCAPE.__mod__, found))}]" if found else NOTHING


@cache
def _listed_beyond_ascii(text: str, flags: int) -> str:
    """The same of all characters that a text can hold, in ranges."""
    return characters(re.compile(text, flags).findall(every_character()))


@cache
def every_character() -> str:
    """All that a text can hold, but halves of pairs of surrogates."""
    return "".join(chr(code) for code in range(0x110000) if code not in _SURROGATES)


def characters(found: Iterable[str]) -> str:
    """A pattern for one of these characters, which come in order."""
    text = ""
    for _, run in groupby(enumerate(map(ord, found)), lambda at: at[1] - at[0]):
        codes = [code for _, code in run]
        text += _escaped(codes[0]) + (f"-{_escaped(codes[-1])}" if len(codes) > 1 else "")
    return f"[{text}]" if text else NOTHING


def _escaped(code: int) -> str:
    letter = chr(code)
    return letter if letter.isascii() and letter.isalnum() else _ESCAPE % code


_NAMES = {
    "ASSERT": "a look ahead or behind",
    "ASSERT_NOT": "a look ahead or behind",
    "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a reference to a group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repeat",
}
