"""Regular expressions in linear time: what RE2 is asked means what `re` would say."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import pyarrow as pa
import pytest

from predicate_extract import Call, Const, Field, IsNull, Truthy, extract
from predicate_extract.algebra.cost import Undecided
from predicate_extract.algebra.linear import NotLinear, linear
from predicate_extract.backends.columns import mask

HOWS = ("search", "match", "fullmatch")
SLOW = [r"(a+)+$", r"(a|aa)+$", r"(.*a){20}b", r"(a*a)*b", r"^(\w+\s?)*$", r"a*a*a*a*a*a*a*b"]
BEYOND = [r"(?=a)a", r"(?<!b)a", r"(a)\1", r"(a)?(?(1)b|c)", r"(?>a+)b", r"a++b", r"a$b", r"\Ba"]
BEYOND += [r"(a*)*", r"(|a)+b", r"((a{100}){100}){100}"]


class _Patterns:
    """Draws patterns of every construct that is taken, and texts that they may match."""

    letters = "abAB_1 -\n\x1c\xe9\xc9\xdf\u017f\u212a"

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def pattern(self) -> tuple[str, int]:
        flags = [re.I, re.M, re.S, re.A]
        chosen = re.NOFLAG
        for flag in self.draw.sample(flags, self.draw.choice((0, 0, 1, 2))):
            chosen |= flag
        return self._alternatives(3), int(chosen)

    def text(self) -> str:
        return "".join(self.draw.choices(self.letters, k=self.draw.randrange(6)))

    def _alternatives(self, depth: int) -> str:
        return "|".join(self._sequence(depth) for _ in range(self.draw.choice((1, 1, 1, 2))))

    def _sequence(self, depth: int) -> str:
        return "".join(self._part(depth) for _ in range(self.draw.choice((1, 2, 2, 3))))

    def _part(self, depth: int) -> str:
        atom = self._atom(depth)
        if atom in ("^", "$", r"\A", r"\Z", r"\b"):
            return atom
        repeats = ("", "", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{2,}", "{0}")
        return atom + self.draw.choice(repeats)

    def _atom(self, depth: int) -> str:
        draw = self.draw
        if depth and draw.random() < 0.3:
            opening = draw.choice(("(", "(?:", f"(?P<n{draw.randrange(10**9)}>", "(?i:", "(?-i:"))
            return opening + self._alternatives(depth - 1) + ")"
        single = [re.escape(letter) for letter in self.letters]
        classes = [r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", ".", "[a-b_]", r"[^a\d]", r"[^\W\d]"]
        classes += ["[É-ß]", "[^a]", r"[\s\S]"]
        places = ["^", "$", r"\A", r"\Z", r"\b"]
        return draw.choice(draw.choice((single, single, classes, places)))


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    return 1 + 100 * int(request.config.getoption("rounds"))


@pytest.mark.parametrize("seed", range(4))
def test_a_pattern_matches_just_what_re_matches(seed: int, rounds: int) -> None:
    patterns, taken, answers = _Patterns(seed), 0, set()
    for _ in range(400 * rounds):
        pattern, flags = patterns.pattern()
        compiled = re.compile(pattern, flags)
        for how in HOWS:
            try:
                ours = linear(pattern, flags, how)
            except NotLinear:
                continue
            taken += 1
            for text in (patterns.text() for _ in range(6)):
                try:
                    answer = ours.matches(how, text)
                except Undecided:
                    assert not text.isascii()
                    continue
                answers.add(answer)
                expected = getattr(compiled, how)(text) is not None
                assert answer == expected, (pattern, flags, how, text)
    assert taken > 400 * rounds and answers == {True, False}


@pytest.mark.parametrize("seed", range(2))
def test_a_pattern_of_bytes_matches_just_what_re_matches(seed: int, rounds: int) -> None:
    patterns = _Patterns(100 + seed)
    for _ in range(300 * rounds):
        text, flags = patterns.pattern()
        pattern = text.encode("latin-1", "ignore").replace(b"[\xc9-]", b"[a-b]")
        try:
            compiled = re.compile(pattern, flags)
        except re.error:
            continue
        for how in HOWS:
            try:
                ours = linear(pattern, flags, how)
            except NotLinear:
                continue
            for content in (patterns.text().encode("latin-1", "ignore") for _ in range(6)):
                expected = getattr(compiled, how)(content) is not None
                assert ours.matches(how, content) == expected, (pattern, flags, how, content)


@dataclass(frozen=True)
class Line:
    name: str
    size: int


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_would_freeze_re_is_matched_at_once_or_left_to_the_filter(
    pattern: str,
) -> None:
    compiled = re.compile(pattern)
    found = extract(lambda line: compiled.match(line.name) and line.size > 5)
    trap = Line("a" * 20_000 + "!", 9)
    batch = pa.record_batch({"name": [trap.name], "size": [trap.size]})
    kept = found.predicate.matches(trap)
    assert kept is not found.exact
    assert bool(mask(found.predicate, batch).keep[0]) is kept
    assert not found.predicate.matches(Line("a", 1))


@pytest.mark.parametrize("pattern", BEYOND)
def test_a_pattern_that_is_not_surely_linear_goes_to_the_filter(pattern: str) -> None:
    found = extract(lambda line: re.search(pattern, line.name) and line.size > 5)
    assert "size > 5" in str(found.predicate)
    assert "search" not in str(found.predicate).replace("search(name, '')", "")
    assert {reason.kind for reason in found.reasons} == {"pattern"}
    assert "may take long" in found.reasons[0].message
    assert found.predicate.matches(Line(None, 1))  # type: ignore[arg-type]
    by_hand = Truthy(Call("search", (Field(("name",)), Const(pattern))))
    assert by_hand.evaluate(Line("ab", 1)) is None


def test_what_depends_on_the_release_of_unicode_is_decided_for_ascii_only() -> None:
    found = extract(lambda line: re.fullmatch(r"\w+", line.name) is not None)
    assert found.exact
    assert found.predicate.evaluate(Line("abc", 1)) is True
    assert found.predicate.evaluate(Line("a c", 1)) is False
    assert found.predicate.evaluate(Line("\N{LATIN SMALL LETTER A WITH DIAERESIS}", 1)) is None


def test_a_text_too_long_for_a_large_pattern_goes_to_the_filter() -> None:
    found = linear(".{1000}x", 0, "search")
    assert not found.matches("search", "a" * 10_000)
    with pytest.raises(Undecided):
        found.matches("search", "a" * 100_000)


@pytest.mark.parametrize(
    "typed", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_columns_say_the_same(typed: pa.DataType, rounds: int) -> None:
    patterns = _Patterns(7)
    for _ in range(25 * rounds):
        pattern, flags = patterns.pattern()
        texts: list[str | None] = [patterns.text() for _ in range(12)]
        texts[patterns.draw.randrange(12)] = None
        batch = pa.record_batch({"name": pa.array(texts).cast(typed)})
        for how in HOWS:
            condition = Truthy(Call(how, (Field(("name",)), Const(pattern), Const(flags))))
            for each in (condition, ~condition, IsNull(condition.of), ~IsNull(condition.of)):
                found = mask(each, batch)
                for row, text in enumerate(texts):
                    alone = each.evaluate(Line(text, 0))  # type: ignore[arg-type]
                    assert bool(found.true[row]) == (alone is True), (each, text)
                    assert bool(found.keep[row]) == (alone is not False), (each, text)
