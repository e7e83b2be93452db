"""Filters on fields of every kind, written at random."""

from __future__ import annotations

from random import Random

from programs_for_tests import HEADER, OPS, Writer, indented

NUMBERS = ("0", "1", "2", "2.5", "-1", "True", "False", "LIMIT", "self.limit", "10**30")
MOMENTS = (
    *("date(2024, 3, 31)", "datetime(2024, 3, 31, 2, 30)", "datetime(2024, 10, 27, 2, 30)"),
    *("datetime(2024, 3, 31, 1, 30, tzinfo=UTC)", "MOMENT", "FOLDED", "timedelta(hours=1)"),
)
MEMBERS = (
    *("Color.RED", "Color.BLUE", "Other.RED", "Level.LOW", "Level.ERROR", "Mood.A", "Mood.NONE"),
    *("Tone.A", "Tone.RED", "Weight.ONE", "Shifted.ONE", "Alike.X", "Hollow.X", "Hollow.Y"),
    *("Sized.X", "Hashed.ONE", "Added.ONE", "Perm.R", "Way.IN"),
)
TEXTS = ("'a'", "'RED'", "''", "'b'", "'A'", "b'a'")
LISTS = ("[1, 2]", "['a']", "[Color.RED]", "(1, 2)", "[Level.LOW]", "[]")
KINDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("a", "b", "i", "f", "flag", "truth", "price", "wide", "r.x", "q.x", "r.double"): NUMBERS,
    ("c", "text", "y"): TEXTS,
    ("d", "t", "z", "u"): MOMENTS,
    ("color", "tint", "other", "r.side", "q.side"): ("Color.RED", "Color.BLUE", "Other.RED"),
    ("level", "maybe_level", "r.level", "q.level"): ("Level.LOW", "Level.ERROR", "1", "2"),
    ("mood", "tone"): ("Mood.A", "Tone.A", "'a'", "Tone.RED", "Mood.NONE", "''"),
    ("weight", "shifted"): ("Weight.ONE", "Shifted.ONE", "1", "2", "0.5"),
    ("alike", "hollow", "sized"): ("Alike.X", "Hollow.X", "Sized.X", "1", "Alike.Y"),
    ("hashed", "added"): ("Hashed.ONE", "Added.ONE", "1", "7"),
    ("ints", "floats", "texts", "gaps", "colors", "levels", "rows", "inners", "vec"): LISTS,
    ("r", "q", "loud"): ("None", "True"),
}
ALL = tuple(dict.fromkeys((*NUMBERS, *MOMENTS, *MEMBERS, *TEXTS, *LISTS, "None", "float('nan')")))
CLASSES = (
    *("int", "str", "float", "bool", "bytes", "list", "date", "datetime", "Decimal", "Enum"),
    *("Color", "Other", "Level", "Mood", "Alike", "Inner", "(int, str)", "Level | str"),
)
# `p` and `q` are fields, `k` and `m` constants, `op` a comparison, `T` a class.
COMMON = """\
{p} {op} {k}
{p} {op} {k}
{p} == {k}
{p} == {k}
{p} != {k}
{k} {op} {p}
{p} {op} {q}
{p} in ({k}, {m})
{p} not in {{{k}, {m}}}
{p} is {k}
not {p}
{p}
{p} is None
{p} is not None
isinstance({p}, {T})
""".splitlines()
RARE = """\
{p} in [{q}, {k}]
{p} in {{{q}, {k}}}
{k} in {p}
{p} is {q}
{p} is not {k}
sum({{{p}, {k}}}) {op} {m}
len({{{p}, {k}}}) == 1
len({{{p}, {q}}}) == 1
{{{k}: 1, {p}: 2}}[{k}] == 2
{{{k}: 5, {m}: 7}}[{p}] == 5
{{{p}: {k}}} == {{{m}: {k}}}
{{{k}: 5, {m}: 7}}.get({p}, 1) == 7
sum({{{k}: 1, {m}: 2}}.values()) == 2
{{{p}, {k}}} == {{{k}}}
{{{p}: 1}}
{{{p}}}
bool({p}) == {k}
{p} + {k} {op} {m}
{k} + {p} {op} {m}
{p} - {q} {op} {k}
{p} & Perm.R
{p} * 2 {op} {k}
-{p} {op} {k}
{p} % 2 == 1
{p} / 2 {op} {k}
{p} // 2 {op} {k}
{p} | 1 {op} {k}
{p} ^ 1 == {k}
{p}.value {op} {k}
{p}.name == 'RED'
{p}.value in ({k}, {m})
{p}.name in ('X', 'A')
str({p}) == {k}
f'{{{p}}}' == {k}
f'{{{p}}}-{{{q}}}' == {k}
len({p}) {op} {k}
min({p}, {k}) {op} {m}
max({p}, {q}) {op} {k}
max([{p}, {k}]) is {k}
({p}, {q}) == ({k}, {m})
({p}, 1) in {{({k}, 1), ({m}, 1)}}
({p} or {q}) {op} {k}
({p} and {q}) == {k}
({p} if {q} else {k}) {op} {m}
{k} < {p} < {m}
{k} == {p} == {q}
any({p} == x for x in ({k}, {m}))
all([{p}, {q} {op} {k}])
[x for x in ({k},) if x == {p}]
{{x for x in ({p}, {k})}} == {{{m}}}
{p}.count({k}) == 1
{p}[0] {op} {k}
{p}[-1] == {k}
{p}[:1] == {k}
{p}.startswith({k})
{p}.lower() == {k}
{p}.upper() in ({k}, {m})
{p}.hour {op} {k}
{p}.year > 2023
{p}.date() {op} {k}
{p} - {q} > timedelta(0)
{p}.weekday() == 6
{p}.strip() == {k}
abs({p}) {op} {k}
int({p}) {op} {k}
round({p}) {op} {k}
float({p}) {op} {k}
sorted([{k}, {m}])[0] == {p}
self.last == {p}
{p} in range(1, 3)
TABLE.get({p}, 1) == 1
NAMED.get({p}) {op} {k}
NAMED[{p}] == {k}
s.above({k})
near({p}, {q})
getattr(s, 'level') {op} {k}
(lambda v: v {op} {k})({p})
self.pick({p}) {op} {k}
self.count == {p}
{p} == {k} == {m}
(w := {p}) == {k} and w
type({p}) is {T}
hash({p}) == hash({k})
repr({p}) == {k}
cached({p}) == {k}
cached({k}) == {p}
'ab'.startswith(('b', {k})) or {p}
not 'ab'.startswith(({k}, 'b')) and {p}
isinstance({k}, {T}) == isinstance({p}, {T})
({p} == {k}) is ({q} == {k})
({p} == {k}) == True
bool({k}) is ({p} == {k})
tuple({{{p}, {k}}}) == ({k},)
{p} in COLORS
{p} in LEVELS
reversed([{p}])
{k} if {p} else {m}
list({p}) == {k}
set({p}) == {{{k}}}
isinstance({p}, type({q}))
""".splitlines()
PATTERNS = """\
1 | 2
None
'a'
True
Color.RED | Color.BLUE
Level.ERROR
Other.RED | 1
Mood.A
Tone.RED
int(v) if v {op} 1
str(v)
float()
[1, *_]
[v, 2]
[]
Inner(x=1)
Inner(side=Color.RED) | Inner(level=Level.ERROR)
{{'a': v}}
v if v
Level(v) if v
Color()
Alike.X
(Color.RED, v)
bool() | None
Weight.ONE | 'b'
""".splitlines()
WIDER = (
    HEADER
    + """
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fields_for_tests import (
    BERLIN, Added, Alike, Color, Hashed, Hollow, Inner, Level, Mood, Other, Perm, Shifted, Sized,
    Thing, Tone, Way, Weight,
    cached
)
from enum import Enum
MOMENT = datetime(2024, 3, 31, 3, 30, tzinfo=BERLIN)
FOLDED = datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)
COLORS = frozenset({Color.RED, Other.BLUE})
LEVELS = (Level.ERROR, 1, 'a')
NAMED = {Color.RED: 1, Level.MID: 2, 'a': 1, Mood.B: 2}
"""
)


class FieldWriter(Writer):
    """Writes the parts of filters: methods that get the event."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._effects = ["pass"]
        if random.random() < 0.2:
            effects = ("self.count += 1", "self.last = s.i", "raise ValueError", "assert s.level")
            self._effects = [random.choice(effects)]

    def part(self) -> list[str]:
        """The body of one method."""
        depth = self._random.choice((1, 1, 2))
        return ["s = event.content", "v = flag = w = other = None", *self._block(depth)]

    def _field(self) -> tuple[str, tuple[str, ...]]:
        names, constants = self._random.choice(tuple(KINDS.items()))
        return f"s.{self._random.choice(names)}", constants

    def _constant(self, alike: tuple[str, ...]) -> str:
        return self._random.choice(alike if self._random.random() < 0.75 else ALL)

    def _atom(self) -> str:
        pick = self._random
        if pick.random() < 0.1:
            return super()._atom()
        field, alike = self._field()
        template = pick.choice(COMMON if pick.random() < 0.6 else RARE)
        second = f"s.{pick.choice(next(n for n, k in KINDS.items() if k is alike))}"
        other = second if pick.random() < 0.6 else self._field()[0]
        return template.format(
            p=field,
            q=other,
            k=self._constant(alike),
            m=self._constant(alike),
            op=pick.choice(OPS),
            T=pick.choice(CLASSES),
        )

    def _compound(self, body: list[str]) -> list[str]:
        pick = self._random
        if pick.random() < 0.4:
            return super()._compound(body)
        first, second = (pick.choice(PATTERNS).format(op=pick.choice(OPS)) for _ in range(2))
        subject = pick.choice((self._field()[0], self._field()[0], "s", "(s.color, s.level)"))
        if subject == "s":
            first = f"Thing(level=Level.MID | Level.LOW, {pick.choice(('color', 'tint'))}=v)"
        cases = [f"    case {first}:", *indented(indented(body))]
        if " if " in first or not first.isidentifier():
            cases += [f"    case {second}:", "        return"]
        return [f"match {subject}:", *cases]


def module(parts: dict[int, list[str]]) -> str:
    """A module with the class `Filter`, which has these parts, and with each alone as `Only7`."""
    lines = [
        "class Filter(FIFOFilter):",
        "    def __init__(self, limit=1):",
        "        super().__init__()",
        "        self.limit = limit",
        "        self.names = {1, 'a'}",
        "        self.count = 0",
        "        self.last = None",
        "        self.seen = set()",
        "    @property",
        "    def wanted(self):",
        "        return self.limit > 0",
        "    def wants(self, s):",
        "        return s.a == self.limit",
        "    def pick(self, value):",
        "        return value if value == self.limit else None",
        "    def enqueue(self, event):",
        "        part = event.content.part",
        *(f"        if part == {number}: self.part_{number}(event)" for number in parts),
    ]
    for number, body in parts.items():
        lines += [f"    def part_{number}(self, event):", *indented(indented(body))]
    for number in parts:
        lines += [f"class Only{number}(Filter):", "    def enqueue(self, event):"]
        lines += [f"        self.part_{number}(event)"]
    return "\n".join((WIDER, *lines, ""))
