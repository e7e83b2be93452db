"""Writes filter programs at random: branches, early returns, locals, state, effects, surprises.

A program is made of a few constructs only, so that they meet each other often.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

CONSTANTS = ("0", "1", "2.5", "True", "None", "'a'", "-1", "LIMIT", "self.limit")
WILD_CONSTANTS = ("self.count", "10**0 + 1", "OTHER", "v")
ATOMS = (
    *(
        "s.a {op} {k}",
        "s.b {op} {k}",
        "{k} {op} s.a",
        "s.a {op} s.b",
        "s.a {op} {k}",
        "s.c {op} {k}",
    ),
    *("0 < s.a <= {k}", "s.a in (1, 'a', None)", "s.b not in {{1, 2}}", "s.c in WATCHED"),
    *("s.a is None", "s.b is not None", "s.c", "flag", "not s.b", "v {op} {k}", "v is None"),
    *("s.c in self.names", "s.a if s.b else {k}", "event.content.r.x {op} {k}", "s['a'] {op} {k}"),
)
WILD_ATOMS = (
    *(
        "s.a + 1 > {k}",
        "odd(s.a)",
        "(w := s.a) is None",
        "self.names and s.a in self.names",
        "event",
    ),
    *("s.c.lower() == 'a'", "s.c.startswith(('a', 'b'))", "'a' in s.c", "s.a - s.b {op} {k}"),
    *("s.a / s.b {op} {k}", "abs(s.a) {op} {k}", "max(s.a, s.b) {op} {k}", "len(s.c) {op} {k}"),
    *("int(s.c) {op} {k}", "s.c[:1] == 'a'", "re.search('^a', s.c)", "PATTERN.match(s.c) is None"),
    *("any(x {op} s.a for x in (1, 2))", "all([s.a {op} {k}, s.b])", "s.a % 2 == 1"),
    *("(s.a, s.b) == (1, 'a')", "(s.a, 1) in {{(1, 1), ('a', 1)}}", "s.a in (s.b, {k})"),
    *(
        "near(s.a, s.b)",
        "near(s.a)",
        "self.wants(s)",
        "first(s)",
        "self.wanted",
        "TABLE.get(s.a, 1) {op} {k}",
    ),
    *(
        "TABLE[s.a] {op} {k}",
        "s.a in range(1, 3)",
        "getattr(s, 'a', 1) {op} {k}",
        "(lambda q: q {op} {k})(s.a)",
    ),
    *(
        "self.count > 1 and s.a {op} {k}",
        "s.a in self.seen",
        "self.count == s.b",
        "bool(s.a) {op} True",
    ),
    *("s.a is True", "f'{{s.a}}-{{s.b}}' == '1-a'", "s.a + 'x' == 'ax'", "not s.a == s.b"),
    *(
        "(s.a or s.b) {op} {k}",
        "(s.a and s.b) {op} {k}",
        "sum([s.a, s.b]) {op} {k}",
        "event.seq {op} {k}",
    ),
    *("s.c.lower() == 'a'", "s.c.startswith(('a', 'b'))", "'a' in s.c", "s.a - s.b {op} {k}"),
    *("s.a / s.b {op} {k}", "abs(s.a) {op} {k}", "max(s.a, s.b) {op} {k}", "len(s.c) {op} {k}"),
    *("int(s.c) {op} {k}", "s.c[:1] == 'a'", "re.search('^a', s.c)", "PATTERN.match(s.c) is None"),
    *("any(x {op} s.a for x in (1, 2))", "all([s.a {op} {k}, s.b])", "s.a % 2 == 1"),
    *("(s.a, s.b) == (1, 'a')", "(s.a, 1) in {{(1, 1), ('a', 1)}}", "s.a in (s.b, {k})"),
    *("near(s.a, s.b)", "near(s.a)", "self.wants(s)", "first(s)", "self.wanted"),
    *("TABLE.get(s.a, 1) {op} {k}", "TABLE[s.a] {op} {k}", "s.a in range(1, 3)"),
    *("getattr(s, 'a', 1) {op} {k}", "(lambda q: q {op} {k})(s.a)", "s.a in self.seen"),
    *("self.count > 1 and s.a {op} {k}", "self.count == s.b", "bool(s.a) {op} True"),
    *("s.a is True", "f'{{s.a}}-{{s.b}}' == '1-a'", "s.a + 'x' == 'ax'", "not s.a == s.b"),
    *("(s.a or s.b) {op} {k}", "(s.a and s.b) {op} {k}", "sum([s.a, s.b]) {op} {k}"),
    *(
        "event.seq {op} {k}",
        "hasattr(s, 'a')",
        "s == {k}",
        "len(s.c) > 1",
        "isinstance(s.a, int)",
        "f'{{s.a}}' == 'a'",
    ),
    *(
        "[1 for x in (1,) if s.a]",
        "self.last",
        "self.count {op} s.a",
        "(lambda: s.a)()",
        "note(s.a)",
    ),
)
# What SQL has other words for, and the types and values that go with them.
SQL_ATOMS = (
    *("s.a // 2 {op} {k}", "s.a // s.b {op} {k}", "s.a % s.b {op} {k}", "s.a // -1 {op} {k}"),
    *(
        "s.a // 0.3 {op} {k}",
        "s.a % -2.5 {op} {k}",
        "s.a & 6 {op} {k}",
        "s.a | s.b",
        "s.a ^ 1 {op} {k}",
    ),
    *("math.floor(s.a) {op} {k}", "int(s.a) {op} {k}", "round(s.a) {op} {k}", "math.isinf(s.a)"),
    *(
        "math.sqrt(s.a) {op} {k}",
        "max(s.a, s.b, 1) {op} {k}",
        "s.a * s.b {op} {k}",
        "-s.a {op} {k}",
    ),
    *("s.c.upper() == 'A'", "s.c.lower() in ('a', 'ss')", "s.c.casefold().startswith('s')"),
    *("'S' in s.c.upper()", "s.c.isdigit()", "s.c.isupper()", "s.c.islower()", "s.c.isalpha()"),
    *("s.c[1:] == ''", "s.c[:-1] {op} 'a'", "s.c[0] == 'a'", "s.c[-1] {op} 'b'", "s.c[-2:] == 'a'"),
    *("s.c.replace('a', 'bb') == 'bb'", "s.c.count('a') {op} {k}", "s.c.find('a') {op} {k}"),
    *("s.c.removeprefix('a') == ''", "s.c.split('a')[0] == ''", "s.c.split('a')[1] == ''"),
    *("re.search(r'\\w', s.c)", "re.fullmatch('(?i)s+', s.c)", "re.search(r'\\d|\\s', s.c)"),
    *(
        "f'{{s.c}}-{{s.a}}' {op} 'a-1'",
        "str(s.a) == '1'",
        "s.a in range(0, 5, 2)",
        "max(s.c, 'a') == 'a'",
    ),
    *(
        "isinstance(s.a, int)",
        "s.a in (s.b, 1)",
        "(s.a, s.c) in {{(1, 'a'), (2, 'b')}}",
        "s.a > 'a'",
    ),
    *(
        "s.a - s.b > timedelta(1)",
        "(s.a - s.b).total_seconds() {op} 3600",
        "(s.a - s.b).days {op} {k}",
    ),
    *(
        "s.a + timedelta(hours=1) > s.b",
        "s.a.hour {op} {k}",
        "s.a.date() == s.b",
        "s.a.microsecond",
    ),
    *(
        "s.a + s.b {op} Decimal('1.5')",
        "s.a * 2 {op} {k}",
        "abs(s.a) {op} Decimal('0.5')",
        "s.a {op} s.b",
    ),
)
EFFECTS = (
    *(
        "self.count += 1",
        "s.a = 5",
        "note(s.a)",
        "NOTES.append(1)",
        "self.last = event",
        "s.r.x = 0",
    ),
    *("self.seen.add(s.a)", "del self.last", "self.limit += 1", "v += 1", "s = s.r"),
    *("raise ValueError('x')", "assert s.a", "del s.a", "event.content = 3", "self.names.add(2)"),
    *(
        "super().enqueue(Event(s))",
        "self.forward(event)",
        "setattr(s, 'a', 1)",
        "s.__dict__.clear()",
    ),
    *(
        "globals().update(LIMIT=4)",
        "event = Event(s)",
        "s = other",
        "x = lambda: super().enqueue(event)",
    ),
)
PLAIN = (
    *(
        "pass",
        "v = s.a",
        "v = 3",
        "flag = s.b == 1",
        "flag = s.a > 1 and s.b",
        "s.c",
        "v, flag = s.b, s.a",
    ),
    *(
        "s = event.content",
        "v = v",
        "e = event",
        "flag: bool = s.a is None",
        "'text'",
        "s.a < 1",
        "w = s.r",
    ),
)
STATE = (("s.a {op} self.count", "self.count += 1"), ("s.c in self.names", "self.names.add(2)"))
OPS = ("==", "!=", "<", "<=", ">", ">=")
VALUES = (
    0,
    1,
    2,
    2,
    3,
    -1,
    math.nan,
    math.nan,
    True,
    False,
    None,
    None,
    "",
    "a",
    10**30,
    [1],
    b"a",
)

TYPED = {
    pa.int64(): (0, 1, 1, 2, 2, 3, -1, 2**53 + 1, 2**63 - 1),
    pa.float64(): (0.0, 1.0, 2.0, 2.5, -1.0, math.nan, math.inf, 2.0**53),
    pa.string(): ("", "a", "a", "b", "A", "1", " a", "ß"),
    pa.bool_(): (True, False),
}
SQL_TYPED = TYPED | {
    pa.string(): (*TYPED[pa.string()], "S", "\u017f", "SS", "aa", "İ", "é1"),
    pa.date32(): (date(1, 1, 1), date(2020, 2, 29), date(9999, 12, 31)),
    pa.timestamp("us"): (
        *(datetime(1, 1, 1), datetime(2020, 2, 29, 23, 59, 59, 999999), datetime(2020, 3, 1)),
        datetime(9999, 12, 31, 23, 59, 59),
    ),
    pa.decimal128(9, 2): (
        Decimal("0.00"),
        Decimal("1.50"),
        Decimal("-0.25"),
        Decimal("9999999.99"),
    ),
    pa.decimal128(12, 5): (Decimal("0.00000"), Decimal("1.50000"), Decimal("-9999999.99999")),
}

HEADER = """
import math
import re
from contextlib import nullcontext, suppress
from datetime import timedelta
from decimal import Decimal
from functools import wraps
PATTERN = re.compile('a|b')
TABLE = {1: 2, 'a': 1, None: 0}
NULL = nullcontext()
WATCHED = {1, "a", None}
LIMIT = 2
OTHER = 1
def rebind():
    global OTHER
    OTHER += 1
class Event:
    seq = 1
    def __init__(self, content):
        self.content = content
def odd(value):
    return value % 2 == 1
def note(value):
    NOTES.append(value)
def near(one, two=2):
    if one is None:
        return False
    for step in (0, 1):
        if one == two + step:
            return True
    return one == 'a'
def first(s):
    for name in ('a', 'b'):
        value = getattr(s, name)
        if value:
            return value
def told(function):
    @wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper
def forgetful(function):
    def wrapper(self, s):
        self.count = 0
        return function(self, s)
    return wrapper
"""


class Writer:
    """One program, drawn with `random`; `for_sql`: with much that SQL has other words for."""

    def __init__(self, random: Random, for_sql: bool = False) -> None:
        self._random = random
        self._loops = 0
        self._typed = SQL_TYPED if for_sql else TYPED
        self._atoms = self._some(ATOMS, WILD_ATOMS, 3)
        if for_sql:
            self._atoms += random.choices(SQL_ATOMS, k=3)
        self._constants = self._some(CONSTANTS, WILD_CONSTANTS, 2)
        self._effects = self._some(("pass",), EFFECTS, 1)
        if random.random() < 0.15:
            atom, effect = random.choice(STATE)
            self._atoms, self._effects = [atom, self._atoms[0]], [effect]

    def _some(self, tame: tuple[str, ...], wild: tuple[str, ...], most: int) -> list[str]:
        chosen = self._random.choices(tame, k=self._random.randint(1, most))
        return [*chosen, self._random.choice(wild)] if self._random.random() < 0.3 else chosen

    def program(self) -> str:
        """The text of a module with the class `Filter(limit=1)`."""
        parent = self._random.choice(("FIFOFilter", "FIFOFilter", "Parent"))
        start = ["s = event.content", "v = flag = w = other = None"]
        return HEADER + "\n".join(
            (
                "class Parent(FIFOFilter):",
                "    def enqueue(self, event):",
                *indented(indented([*start, *self._block(1)])),
                f"class Filter({parent}):",
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
                f"    @{self._random.choice(('told', 'told', 'told', 'forgetful'))}",
                "    def wants(self, s):",
                "        return s.a == self.limit",
                "    def forward(self, event):",
                "        super().enqueue(event)",
                "    def enqueue(self, event):",
                *indented(indented([*start, *self._block(2)])),
                "",
            )
        )

    def content(self) -> dict[str, Any]:
        """The fields of a content; now and then one is missing."""
        pick = self._random.choice
        fields: dict[str, Any] = {
            name: pick(VALUES) for name in "abc" if self._random.random() < 0.95
        }
        if self._random.random() < 0.8:
            fields["r"] = {"x": pick(VALUES)}
        return fields

    def batch(self, rows: int = 12) -> pa.RecordBatch:
        """Contents of one schema, drawn as well."""
        schema = self.schema()
        return pa.RecordBatch.from_pylist([self.row(schema) for _ in range(rows)], schema)

    def schema(self) -> pa.Schema:
        """A type for each field, which may or may not be null."""
        draw = self._random
        fields = [
            pa.field(name, draw.choice([*self._typed]), draw.random() < 0.7) for name in "abc"
        ]
        inner = pa.struct([pa.field("x", draw.choice([*self._typed]), draw.random() < 0.7)])
        return pa.schema([*fields, pa.field("r", inner, draw.random() < 0.5)])

    def row(self, schema: pa.Schema) -> dict[str, Any]:
        return {field.name: self._value(field) for field in schema}

    def _value(self, field: pa.Field) -> Any:
        if field.nullable and self._random.random() < 0.2:
            return None
        if pa.types.is_struct(field.type):
            return {each.name: self._value(each) for each in field.type}
        return self._random.choice(self._typed[field.type])

    def _compound(self, body: list[str]) -> list[str]:
        """A loop, a `with`, or a `match` around a block."""
        self._loops += 1
        turns = f"turns{self._loops}"  # which nothing inside sets back, so that the loop ends
        shapes = (
            ["for v in (1, 2):", *indented(body)],
            ["for v in (1, 2):", *indented([*body, "if v == s.a:", "    break"])],
            ["for v in (1, 'a'):", "    if v == s.b:", "        continue", *indented(body)],
            ["for v in (1, 2):", *indented(body), "else:", "    v = 0"],
            ["for v in s.c:", *indented(body)],
            ["with NULL:", *indented(body)],
            ["with nullcontext():", *indented(body)],
            ["with suppress(Exception):", *indented(body)],
            [f"{turns} = 0", f"while {turns} < 2:", f"    {turns} += 1", *indented(body)],
            ["while s.a == 1:", *indented([*body, "break"])],
            [
                "match s.a:",
                "    case 1 | 'a':",
                *indented(indented(body)),
                "    case None:",
                "        return",
            ],
            [
                "match s.a, s.b:",
                "    case (1, v) if v:",
                *indented(indented(body)),
                "    case _:",
                "        v = 3",
            ],
            [
                "match s.c:",
                "    case str(v):",
                *indented(indented(body)),
                "    case [v, 1]:",
                "        return",
            ],
            ["match s.b:", "    case int() | float() as v:", *indented(indented(body))],
        )
        return self._random.choice(shapes)

    def _question(self, depth: int) -> str:
        shape = (
            self._random.choice(("atom", "atom", "atom", "not", "and", "or")) if depth else "atom"
        )
        if shape == "atom":
            return self._atom()
        if shape == "not":
            return f"not ({self._question(depth - 1)})"
        return f"({self._question(depth - 1)}) {shape} ({self._question(depth - 1)})"

    def _atom(self) -> str:
        op, constant = self._random.choice(OPS), self._random.choice(self._constants)
        return self._random.choice(self._atoms).format(op=op, k=constant)

    def _block(self, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self._random.randint(1, 3)):
            kind = self._random.random() * (1 if depth else 0.55)
            if kind < 0.2:
                lines.append("super().enqueue(event)")
                if self._random.random() < 0.6:
                    return [*lines, "return"]
            elif kind < 0.35:
                lines.append(self._random.choice(PLAIN))
            elif kind < 0.45:
                ends = ("return", "return super().enqueue(event)", "return s.a")
                return [*lines, self._random.choice(ends)]
            elif kind < 0.55:
                lines.append(self._random.choice(self._effects))
            elif kind < 0.93:
                lines += [f"if {self._question(2)}:", *indented(self._block(depth - 1))]
                if self._random.random() < 0.4:
                    lines += [f"elif {self._question(2)}:", *indented(self._block(depth - 1))]
                if self._random.random() < 0.3:
                    lines += ["else:", *indented(self._block(depth - 1))]
            elif kind < 0.97:
                ends = (
                    "except Exception:\n    pass",
                    "finally:\n    v = 1",
                    "except Exception:\n    pass\nelse:\n    v = 2",
                    "finally:\n    super().enqueue(event)",
                    "except ValueError:\n    self.count += 1",
                )
                lines += ["try:", *indented(self._block(depth - 1))]
                lines += self._random.choice(ends).split("\n")
            else:
                lines += self._compound(self._block(depth - 1))
        return lines


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
