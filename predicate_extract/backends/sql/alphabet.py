"""Conditions on texts that are patterns of single characters, by this Python's tables.

Databases follow other releases of Unicode than Python, and call other characters letters. So a
text's `lower`, `isdigit` and the like are never computed there: which characters they come from
is asked of Python, and what is compared with a constant becomes a pattern over them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from predicate_extract.algebra.linear import NOTHING, characters, every_character
from predicate_extract.backends.truth import Unfaithful

CASES = ("lower", "upper", "casefold")
PLACES = {
    "==": (False, False),
    "startswith": (False, True),
    "endswith": (True, False),
    "contains": (True, True),
}
"""Whether a text may go on before, and after, what it is compared with."""

_SURROGATES = range(0xD800, 0xE000)
_SIGMAS = set("\u03c3\u03c2")  # which of them `lower` makes of a capital depends on its neighbours
_MAX_TEXT = 256
_MAX_WAYS = 64

# Which texts each of these is true for: not empty, and of such characters only.
_OF_ONE_KIND: dict[str, Callable[[str], bool]] = {
    "isalnum": str.isalnum,
    "isalpha": str.isalpha,
    "isdecimal": str.isdecimal,
    "isdigit": str.isdigit,
    "isnumeric": str.isnumeric,
    "isspace": str.isspace,
}


def kind_of_text(function: str) -> tuple[list[str], list[str]] | None:
    """Patterns of which a text must have each, and must have none, for a test like `isdigit`.

    None, if it is no such test.
    """
    match function:
        case _ if function in _OF_ONE_KIND:
            known = _OF_ONE_KIND[function]
            return [rf"\A{_those(known)}+\z"], []
        case "isupper":
            return [_those(str.isupper)], [_those(_lower_or_title)]
        case "islower":
            return [_those(str.islower)], [_those(str.istitle)]
        case "isascii":
            return [], [r"[^\x{0}-\x{7f}]"]
        case "isprintable":
            return [], [_those(_unprintable)]
    return None


def _lower_or_title(letter: str) -> bool:
    return letter.islower() or (letter.istitle() and not letter.isupper())


def _unprintable(letter: str) -> bool:
    return not letter.isprintable()


@cache
def _those(known: Callable[[str], bool]) -> str:
    return characters(filter(known, every_character()))


def spelled(function: str, how: str, text: str) -> str:
    """A pattern found in those texts of which `function` makes one that is equal to `text`, or
    starts with it, ends with it, contains it.

    Raises: Unfaithful.
    """
    if not text or len(text) > _MAX_TEXT or any(ord(each) in _SURROGATES for each in text):
        raise Unfaithful
    if function == "lower" and _SIGMAS & set(text):
        raise Unfaithful
    before, after = PLACES[how]
    steps = _steps(function, text, before, after)
    start, end = "" if before else r"\A", "" if after else r"\z"
    return f"{start}{_joined(steps, len(text))}{end}"


# From a place in a text to a later one: the characters that become what lies between.
Steps = dict[tuple[int, int], set[str]]


def _steps(function: str, text: str, before: bool, after: bool) -> Steps:
    """Each way over a part of the text by one character; one that becomes several may stick out
    where the text goes on."""
    end = len(text)
    steps: Steps = {}
    changed, results = _changes(function)
    for place, letter in enumerate(text):
        if letter not in changed:
            steps.setdefault((place, place + 1), set()).add(letter)
    for result, letters in results.items():
        size = len(result)
        for first in range(1 - size, end):
            last = first + size
            if (first < 0 and not before) or (last > end and not after):
                continue
            low, high = max(first, 0), min(last, end)
            if result[low - first : high - first] == text[low:high]:
                steps.setdefault((low, high), set()).update(letters)
    return steps


@cache
def _changes(function: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """What becomes of the characters that do not stay as they are; and of which each comes."""
    change: Callable[[str], str] = getattr(str, function)
    changed = {each: new for each in every_character() if (new := change(each)) != each}
    results: dict[str, list[str]] = {}
    for each, new in changed.items():
        results.setdefault(new, []).append(each)
    return changed, results


def _joined(steps: Steps, end: int) -> str:
    """The ways from the start to the end, divided at the places that all of them pass."""
    ways: dict[int, list[str]] = {0: [""]}
    written = ""
    for place in range(end + 1):
        here = ways.pop(place, [])
        if not ways:  # no other way is under way: all that come along pass this place
            if not here:
                return NOTHING
            written += here[0] if len(here) == 1 else f"(?:{'|'.join(here)})"
            here = [""]
        if len(here) > _MAX_WAYS:
            raise Unfaithful
        for (first, last), letters in steps.items():
            if first == place:
                one = characters(sorted(letters))
                ways.setdefault(last, []).extend(way + one for way in here)
    return written
