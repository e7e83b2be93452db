"""Filters that ask for what Python and Spark do differently, and the rows that show it.

Each has a name. `Tricky.pushed` is in the filters that Spark pushes into a Parquet file.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from activebroker.events import Event
from activebroker.filters import FIFOFilter

# -- rows ----------------------------------------------------------------------------------------

_DAYS = (date(1, 1, 1), date(1969, 12, 31), date(2020, 2, 29), date(2020, 6, 1), date(9999, 12, 31))
_TIMES = (
    datetime(1, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2020, 3, 29, 2, 30),  # no such time in Berlin
    datetime(2020, 10, 25, 0, 30),
    datetime(2020, 6, 1, 12, 15),
    datetime(2020, 6, 1),
)
COLUMNS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "i": (pa.int64(), (0, 1, 2, 3, -1, -7, 10, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))),
    "j": (pa.int64(), (0, 1, 3, -1, -3, 7, 2**62, 2**63 - 1, -(2**63))),
    "k": (pa.int32(), (0, 1, 2, 7, -1, -7, 12, 2**31 - 1, -(2**31))),
    "t": (pa.int8(), (0, 1, 3, -2, 127, -128)),
    "f": (
        pa.float64(),
        (0.0, -0.0, 0.1, 1.0, 2.5, -7.0, 7.5, 2.0**53, 1e300, -1e300, 5e-324),
    ),
    "e": (pa.float64(), (0.0, -0.0, 1.0, -2.0, 0.3, math.inf, -math.inf, math.nan)),
    "g": (pa.float32(), (0.0, 0.5, 2.5, -1.5, math.inf, math.nan)),
    "s": (
        pa.string(),
        (
            *("", "a", "JFK", "jfk", " JFK ", "JFK\n", "a\nb", "12", "-7", "ß", "É", "İ", "\u017f"),
            *("ǅ", "x@y.com", "LGA,JFK", "\U0001f600", "\uffff", "e\u0301", "aa\u00a0", "٣"),
            *("${x}", "%_"),
        ),
    ),
    "u": (pa.string(), ("", "a", "JFK", "b", "É", "\U0001f600", "F")),
    "m": (pa.decimal128(10, 2), tuple(map(Decimal, ("0.00", "1.00", "9.50", "-7.25", "0.10")))),
    "n": (pa.decimal128(20, 4), tuple(map(Decimal, ("0.0000", "1.0000", "9.5000", "-0.0001")))),
    "d": (pa.date32(), _DAYS),
    "at": (pa.timestamp("us"), _TIMES),
    "on": (pa.timestamp("us"), _TIMES),
    "seen": (pa.timestamp("us", "UTC"), tuple(at.replace(tzinfo=UTC) for at in _TIMES[1:])),
    "b": (pa.bool_(), (True, False)),
    "y": (pa.binary(), (b"", b"a", b"\x00", b"\xff")),
    "tags": (pa.list_(pa.string()), ([], ["a"], ["b", None], ["JFK", "a"])),
    "q": (pa.list_(pa.int64()), ([], [0], [1, 2], [3, -3])),
    "r": (
        pa.struct(
            [
                ("x", pa.int64()),
                ("y", pa.string()),
                ("z", pa.struct([("w", pa.float64()), ("at", pa.timestamp("us"))])),
            ]
        ),
        (
            {"x": 1, "y": "a", "z": {"w": 0.5, "at": _TIMES[4]}},
            {"x": None, "y": "JFK", "z": {"w": math.nan, "at": None}},
            {"x": -3, "y": None, "z": None},
            {"x": 7, "y": "", "z": {"w": None, "at": _TIMES[1]}},
        ),
    ),
}


def rows(count: int, seed: int = 1) -> pa.Table:
    """Each value of each column at least once, beside others in many ways, and nulls."""
    random = Random(seed)
    arrays = []
    for type, values in COLUMNS.values():
        some: list[Any] = [*values, None]
        some += [random.choice(some) for _ in range(count - len(some))]
        random.shuffle(some)
        arrays.append(pa.array(some, type))
    arrays.append(pa.array(range(count)))
    return pa.Table.from_arrays(arrays, names=[*COLUMNS, "number"])


def contents(table: pa.Table) -> list[Any]:
    """The rows as objects."""

    def thing(value: Any) -> Any:
        if isinstance(value, dict):
            return SimpleNamespace(**{name: thing(inner) for name, inner in value.items()})
        return value

    return [thing(row) for row in table.to_pylist()]


def forwarded(filter: Any, content: Any) -> list[Any]:
    """The contents that a filter, or a function, forwards in plain Python."""
    if not isinstance(filter, FIFOFilter):
        return [content] if filter(content) else []
    filter._forwarded.clear()
    filter.enqueue(Event(content, "Row", "", 0, 0))
    return [event.content for event in filter._forwarded]


# -- filters ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tricky:
    """A filter, or its class; what Spark pushes of it, if it is known."""

    name: str
    filter: Any
    pushed: str = ""


LIMIT = 7
WATCHED = frozenset(("JFK", "LGA", "É"))
PRICES = {"JFK": 1, "LGA": 2}
CODE = re.compile("[A-Z]{3}")
NOON = datetime(2020, 6, 1, 12)
MOMENT = datetime(2020, 6, 1, 14, tzinfo=UTC)
MAY = date(2020, 5, 1)


def _nulls() -> Iterator[Tricky]:
    yield Tricky("equal", lambda f: f.i == 1, "EqualTo(i,1)")
    yield Tricky("unequal", lambda f: f.i != 1, "Not(EqualTo(i,1))")
    yield Tricky("not equal", lambda f: not f.i == 1)  # noqa: SIM201
    yield Tricky("none or more", lambda f: f.i is None or f.i > 0, "Or(IsNull(i),GreaterThan(i,0))")
    yield Tricky("not a guarded one", lambda f: not (f.i is not None and f.i > 0), "IsNull(i)")
    yield Tricky("two fields are equal", lambda f: f.i == f.k)
    yield Tricky("two fields differ", lambda f: f.s != f.u)
    yield Tricky("none of two", lambda f: f.s is None and f.i is not None, "IsNull(s)")
    yield Tricky("order raises on none", lambda f: f.i > 0)
    yield Tricky("a chain raises on none", lambda f: -7 <= f.k < 7)
    yield Tricky("a guard for two", lambda f: None not in (f.i, f.k) and f.i < f.k)
    yield Tricky("in, with none", lambda f: f.i in (None, 1, 3))
    yield Tricky("not in, with none", lambda f: f.s not in ("JFK", None))
    yield Tricky("or a default", lambda f: (f.k or 0) > 1)
    yield Tricky("a default by a condition", lambda f: (0 if f.k is None else f.k) >= 0)
    yield Tricky("truth of a boolean", lambda f: f.b, "EqualTo(b,true)")
    yield Tricky("no truth of a boolean", lambda f: not f.b)
    yield Tricky("is True", lambda f: f.b is True)
    yield Tricky("is not False", lambda f: f.b is not False)
    yield Tricky("a boolean is a number", lambda f: f.b == 1)
    yield Tricky("a boolean and a number", lambda f: f.b is not None and f.b + f.b > 1)
    yield Tricky("truth of an integer", lambda f: f.i)
    yield Tricky("truth of a text", lambda f: not f.s)
    yield Tricky("one of two by a third", lambda f: (f.i if f.b else f.k) == 1)
    yield Tricky("text is no number", lambda f: f.s == 12 or f.i == "1")
    yield Tricky("always raises but for none", lambda f: f.s is None or f.s > f.i)


def _floats() -> Iterator[Tricky]:
    yield Tricky("equal to itself", lambda f: f.e == f.e)
    yield Tricky("unequal to itself", lambda f: f.e != f.e)
    yield Tricky("above", lambda f: f.e is not None and f.e > 1, "GreaterThan(e,1.0)")
    yield Tricky("not above", lambda f: f.e is not None and not f.e > 1)
    yield Tricky("nought, either", lambda f: f.f == 0, "EqualTo(f,0.0)")
    yield Tricky("in floats", lambda f: f.f in (0.0, 2.5), "In(f, [0.0,2.5])")
    yield Tricky("truth of a float", lambda f: f.e)
    yield Tricky("isnan", lambda f: f.e is not None and math.isnan(f.e))
    yield Tricky("isinf", lambda f: f.e is not None and math.isinf(f.e))
    yield Tricky("isfinite", lambda f: f.e is not None and math.isfinite(f.e))
    yield Tricky("infinite", lambda f: f.e == float("inf"), "EqualTo(e,Infinity)")
    yield Tricky("negated", lambda f: f.e is not None and -f.e < 0)
    yield Tricky("absolute", lambda f: f.f is not None and abs(f.f) >= 2.5)
    yield Tricky("max with nan", lambda f: f.e is not None and max(f.e, 0.0) == 0)
    yield Tricky("min with nan first", lambda f: f.e is not None and min(0.5, f.e) < 0.5)
    yield Tricky("single and double", lambda f: f.g is not None and f.e is not None and f.g < f.e)
    yield Tricky("an integer beyond floats", lambda f: f.f is not None and f.f >= 2**53 + 1)
    yield Tricky(
        "an integer field and a float", lambda f: f.i is not None and f.i < 2.5, "LessThan"
    )
    yield Tricky("a float equals an integer", lambda f: f.f == f.k)
    yield Tricky("a long integer and a float", lambda f: f.f == f.i)
    yield Tricky("floor by 2", lambda f: f.f is not None and f.f // 2 == 1)
    yield Tricky("floor by -0.1", lambda f: f.e is not None and f.e // -0.1 < 0)
    yield Tricky("floor by a field", lambda f: f.f is not None and f.e and f.f // f.e == -4)
    yield Tricky("remainder by 1", lambda f: f.f is not None and f.f % 1 == 0)
    yield Tricky("remainder by -2", lambda f: f.f is not None and f.f % -2 <= -1)
    yield Tricky("remainder by a field", lambda f: f.f is not None and f.e and f.f % f.e >= 0)
    yield Tricky("a float division by nought", lambda f: f.f is not None and 1 / f.f > 0)
    yield Tricky("whole", lambda f: f.f is not None and f.f.is_integer())
    yield Tricky("int of a float", lambda f: f.f is not None and int(f.f) == 7)
    yield Tricky("rounded", lambda f: f.f is not None and round(f.f) == 2)
    yield Tricky("rounded to a digit", lambda f: f.f is not None and round(f.f, 1) == 0.1)
    yield Tricky("floor", lambda f: f.f is not None and math.floor(f.f) == 7)
    yield Tricky("ceil", lambda f: f.f is not None and math.ceil(f.f) == 8)
    yield Tricky("sqrt", lambda f: f.k is not None and f.k >= 0 and math.sqrt(f.k) > 2.5)
    yield Tricky("text of a float", lambda f: str(f.f) == "2.5")
    yield Tricky("overflow", lambda f: f.f is not None and f.f * 1e10 == math.inf)
    yield Tricky("sum of floats", lambda f: f.e is not None and f.e + 0.1 == 0.4)


def _integers() -> Iterator[Tricky]:
    yield Tricky("even", lambda f: f.i is not None and f.i % 2 == 0)
    yield Tricky("remainder", lambda f: f.k is not None and f.k % -5 == -3)
    yield Tricky("remainder of a long", lambda f: f.i is not None and f.i % 1000 == 7)
    yield Tricky("remainder by an int", lambda f: f.k and f.i is not None and f.i % f.k == 0)
    yield Tricky("remainder by a long", lambda f: f.j and f.i is not None and f.i % f.j == 1)
    yield Tricky("floor", lambda f: f.i is not None and f.i // 7 == -1)
    yield Tricky("floor by a negative", lambda f: f.i is not None and f.i // -2 < -1)
    yield Tricky("floor of an int", lambda f: f.k is not None and f.k // 10 * 10 == f.k)
    yield Tricky("floor by an int", lambda f: f.k and f.i is not None and f.i // f.k == 1)
    yield Tricky("floor by a long", lambda f: f.j and f.i is not None and f.i // f.j >= 1)
    yield Tricky("floor by -1", lambda f: f.i is not None and f.i // -1 > 2**62)
    yield Tricky("a floor by nought raises", lambda f: f.k is not None and 100 // f.k == -15)
    yield Tricky("divmod", lambda f: f.k is not None and divmod(f.k, 5) == (1, 2))
    yield Tricky("sum", lambda f: f.i is not None and f.j is not None and f.i + f.j > 2**63)
    yield Tricky("difference", lambda f: f.i is not None and f.j is not None and f.i - f.j == 0)
    yield Tricky("product", lambda f: f.i is not None and f.j is not None and f.i * f.j > 2**100)
    yield Tricky("double", lambda f: f.i is not None and f.i * 2 >= 2**64 - 2)
    yield Tricky("negated", lambda f: f.i is not None and -f.i > 2**62)
    yield Tricky("absolute", lambda f: f.i is not None and abs(f.i) == 7)
    yield Tricky("max", lambda f: f.i is not None and f.k is not None and max(f.i, f.k, 3) == 3)
    yield Tricky("quotient", lambda f: f.k is not None and f.k / 4 == 0.5)
    yield Tricky("quotient of longs", lambda f: f.j and f.i is not None and f.i / f.j == 1)
    yield Tricky("odd by bits", lambda f: f.i is not None and f.i & 1)
    yield Tricky("bits of two", lambda f: f.k is not None and f.t is not None and f.k | f.t == 7)
    yield Tricky("other bits", lambda f: f.t is not None and f.t ^ 1 == 2)
    yield Tricky("a power", lambda f: f.k is not None and f.k**2 == 49)
    yield Tricky("shifted", lambda f: f.k is not None and f.k << 1 == 14)
    yield Tricky("text of a long", lambda f: f.i is not None and str(f.i) == "-7")
    yield Tricky("float of a long", lambda f: f.i is not None and float(f.i) == 2.0**53)
    yield Tricky("beyond a long", lambda f: f.i is not None and f.i < 2**63, "IsNotNull(i)")
    yield Tricky("bounded", lambda f: f.t is not None and 0 <= f.t - 1 < 10)
    yield Tricky("a limit elsewhere", lambda f: f.k is not None and f.k == LIMIT, "EqualTo(k,7)")
    yield Tricky("bit_length", lambda f: f.k is not None and f.k.bit_length() == 3)


def _texts() -> Iterator[Tricky]:
    yield Tricky("equal text", lambda f: f.s == "É", "EqualTo(s,É)")
    yield Tricky("order of texts", lambda f: f.s is not None and f.s > "E", "GreaterThan(s,E)")
    yield Tricky("order of two texts", lambda f: f.s and f.u and f.s < f.u)
    yield Tricky("lower", lambda f: f.s is not None and f.s.lower() == "jfk")
    yield Tricky("lower, not ASCII", lambda f: f.s is not None and f.s.lower() == "é")
    yield Tricky("upper", lambda f: f.s is not None and f.s.upper().startswith("J"))
    yield Tricky("casefold", lambda f: f.s is not None and f.s.casefold() in {"jfk", "ss"})
    yield Tricky("title", lambda f: f.s is not None and f.s.title() == "Jfk")
    yield Tricky("strip", lambda f: f.s is not None and f.s.strip() == "JFK")
    yield Tricky("rstrip", lambda f: f.s is not None and f.s.rstrip("K\n") == "JF")
    yield Tricky("length", lambda f: f.s is not None and len(f.s) == 3)
    yield Tricky("length raises on none", lambda f: len(f.s) == 1)
    yield Tricky("contained", lambda f: f.s is not None and "F" in f.s, "StringContains(s,F)")
    yield Tricky("contained in a text", lambda f: f.s is not None and f.s in "JFK LGA")
    yield Tricky("field in field", lambda f: f.s is not None and f.u is not None and f.u in f.s)
    yield Tricky(
        "starts", lambda f: f.s is not None and f.s.startswith("J"), "StringStartsWith(s,J)"
    )
    yield Tricky("starts with one of", lambda f: f.s is not None and f.s.startswith(("J", "L")))
    yield Tricky("ends", lambda f: f.s is not None and f.s.endswith("K"), "StringEndsWith(s,K)")
    yield Tricky("starts with a wildcard", lambda f: f.s is not None and f.s.startswith("%"))
    yield Tricky("a variable's form", lambda f: f.s == "${x}")
    yield Tricky("first letter", lambda f: f.s and f.s[0] == "J")
    yield Tricky("first letter raises", lambda f: f.s is not None and f.s[0] == "J")
    yield Tricky("last letter", lambda f: f.s and f.s[-1] == "K")
    yield Tricky("first two", lambda f: f.s is not None and f.s[:2] == "JF")
    yield Tricky("middle", lambda f: f.s is not None and f.s[1:3] == "FK")
    yield Tricky("last two", lambda f: f.s is not None and f.s[-2:] == "FK")
    yield Tricky("all but the last", lambda f: f.s is not None and f.s[:-1] == "JF")
    yield Tricky("replaced", lambda f: f.s is not None and f.s.replace("J", "G") == "GFK")
    yield Tricky("counted", lambda f: f.s is not None and f.s.count("a") > 1)
    yield Tricky("found", lambda f: f.s is not None and f.s.find("F") == 1)
    yield Tricky("prefix removed", lambda f: f.s is not None and f.s.removeprefix("J") == "FK")
    yield Tricky("suffix removed", lambda f: f.s is not None and f.s.removesuffix("K") == "JF")
    yield Tricky("split", lambda f: f.s is not None and f.s.split(",")[0] == "LGA")
    yield Tricky("isdigit", lambda f: f.s is not None and f.s.isdigit())
    yield Tricky("isascii", lambda f: f.s is not None and f.s.isascii())
    yield Tricky("isupper", lambda f: f.s is not None and f.s.isupper())
    yield Tricky("joined", lambda f: f.s is not None and f.s + "!" == "JFK!")
    yield Tricky(
        "joined fields", lambda f: f.s is not None and f.u is not None and f.s + f.u == "a"
    )
    yield Tricky("f-string", lambda f: f"{f.s}-{f.k}" == "JFK-7")
    yield Tricky("f-string of a text", lambda f: f.s is not None and f"{f.s}!" == "JFK!")
    yield Tricky("int of a text", lambda f: f.s is not None and f.s.isdigit() and int(f.s) == 12)
    yield Tricky("max of texts", lambda f: f.s is not None and max(f.s, "K") == "K")
    yield Tricky("bytes", lambda f: f.y == b"\xff")
    yield Tricky("order of bytes", lambda f: f.y is not None and f.y > b"a")
    yield Tricky("text of none", lambda f: str(f.s) == "None")


def _patterns() -> Iterator[Tricky]:
    yield Tricky("search", lambda f: f.s is not None and re.search("^J", f.s))
    yield Tricky("search in a text", lambda f: f.s and re.search(r"[@,]\w", f.s) is not None)
    yield Tricky("match", lambda f: f.s is not None and re.match("[A-Z]{3}$", f.s))
    yield Tricky("fullmatch", lambda f: f.s is not None and re.fullmatch("[A-Z]{3}", f.s))
    yield Tricky("digits", lambda f: f.s is not None and re.fullmatch(r"-?\d+", f.s))
    yield Tricky("any case", lambda f: f.s is not None and re.search("(?i)jfk", f.s))
    yield Tricky("any character", lambda f: f.s is not None and re.search("a.b", f.s))
    yield Tricky("a newline too", lambda f: f.s is not None and re.search("a.b", f.s, re.DOTALL))
    yield Tricky("compiled", lambda f: f.s is not None and CODE.match(f.s))
    yield Tricky("not matched", lambda f: f.s is not None and CODE.search(f.s) is None)
    yield Tricky("alternatives", lambda f: f.s is not None and re.fullmatch("(JFK|LGA),?.*", f.s))
    yield Tricky("look-ahead", lambda f: f.s is not None and re.search("J(?=F)", f.s))
    yield Tricky("the same again", lambda f: f.s is not None and re.search(r"(.)\1", f.s))
    yield Tricky("a pattern on none raises", lambda f: re.match("J", f.s))


def _decimals() -> Iterator[Tricky]:
    yield Tricky("above 5", lambda f: f.m is not None and f.m > 5, "GreaterThan(m,5.00)")
    yield Tricky("a decimal", lambda f: f.m == Decimal("9.5"), "EqualTo(m,9.50)")
    yield Tricky("a float no decimal is", lambda f: f.m == 0.1)
    yield Tricky("at most a float", lambda f: f.m is not None and f.m <= 9.5, "LessThanOrEqual")
    yield Tricky("one of decimals", lambda f: f.m in (Decimal("1.00"), 2, Decimal("0.1")))
    yield Tricky("between digits", lambda f: f.m is not None and f.m < Decimal("0.105"))
    yield Tricky("truth of a decimal", lambda f: f.m)
    yield Tricky("two scales", lambda f: f.m is not None and f.n is not None and f.m > f.n)
    yield Tricky("two scales equal", lambda f: f.m == f.n)
    yield Tricky("a decimal and an int", lambda f: f.m == f.k)
    yield Tricky(
        "a decimal above an int", lambda f: f.m is not None and f.k is not None and f.m > f.k
    )
    yield Tricky("a decimal and a float", lambda f: f.m == f.f)
    yield Tricky("twice a decimal", lambda f: f.m is not None and f.m * 2 == 19)
    yield Tricky("a decimal more", lambda f: f.m is not None and f.m + 1 > Decimal("10"))
    yield Tricky(
        "sum of decimals", lambda f: f.m is not None and f.n is not None and f.m + f.n == 2
    )
    yield Tricky("negated decimal", lambda f: f.m is not None and -f.m > 7)
    yield Tricky("absolute decimal", lambda f: f.m is not None and abs(f.m) == Decimal("7.25"))
    yield Tricky("int of a decimal", lambda f: f.m is not None and int(f.m) == -7)


def _moments() -> Iterator[Tricky]:
    yield Tricky(
        "after a day", lambda f: f.d is not None and f.d > MAY, "GreaterThan(d,2020-05-01)"
    )
    yield Tricky("days", lambda f: f.d in (date(2020, 6, 1), date(1, 1, 1)), "In(d")
    yield Tricky(
        "in a month", lambda f: f.d is not None and date(2020, 6, 1) <= f.d < date(2020, 7, 1)
    )
    yield Tricky("year", lambda f: f.d is not None and f.d.year == 2020)
    yield Tricky("summer", lambda f: f.d is not None and f.d.month in (6, 7, 8))
    yield Tricky("workday", lambda f: f.d is not None and f.d.weekday() < 5)
    yield Tricky("isoweekday", lambda f: f.at is not None and f.at.isoweekday() == 7)
    yield Tricky("from noon", lambda f: f.at is not None and f.at >= NOON, "GreaterThanOrEqual(at")
    yield Tricky("at night", lambda f: f.at is not None and not 6 <= f.at.hour < 22)
    yield Tricky("quarters", lambda f: f.at is not None and f.at.minute % 15 == 0)
    yield Tricky("microsecond", lambda f: f.at is not None and f.at.microsecond > 0)
    yield Tricky("its day", lambda f: f.at is not None and f.at.date() == date(2020, 6, 1))
    yield Tricky("its day is another's", lambda f: f.at is not None and f.at.date() == f.d)
    yield Tricky("its time", lambda f: f.at is not None and f.at.time() >= time(12))
    yield Tricky("year and month", lambda f: f.at and f.at.year * 100 + f.at.month == 202006)
    yield Tricky("before another", lambda f: f.at is not None and f.on is not None and f.at < f.on)
    yield Tricky("a moment", lambda f: f.seen is not None and f.seen < MOMENT, "LessThan(seen")
    yield Tricky("hour of a moment", lambda f: f.seen is not None and f.seen.hour == 2)
    yield Tricky("day of a moment", lambda f: f.seen is not None and f.seen.date() == f.d)
    yield Tricky("weekday of a moment", lambda f: f.seen is not None and f.seen.weekday() == 6)
    yield Tricky("naive is not aware", lambda f: f.at == f.seen)
    yield Tricky("a naive constant", lambda f: f.seen == NOON)
    yield Tricky("order of naive and aware", lambda f: f.seen is None or f.seen > NOON)
    yield Tricky(
        "since a moment", lambda f: f.at is not None and f.at - NOON > timedelta(hours=-13)
    )
    yield Tricky(
        "apart", lambda f: f.at is not None and f.on is not None and f.at - f.on > timedelta(days=1)
    )
    yield Tricky(
        "seconds apart",
        lambda f: f.at is not None and f.on is not None and (f.at - f.on).total_seconds() > 3600,
    )
    yield Tricky("days apart", lambda f: f.d is not None and (f.d - MAY).days > 0)
    yield Tricky(
        "a day later", lambda f: f.at is not None and f.at < NOON and f.at + timedelta(1) > NOON
    )
    yield Tricky("timestamp", lambda f: f.seen is not None and f.seen.timestamp() > 0)
    yield Tricky("isoformat", lambda f: f.d is not None and f.d.isoformat() == "2020-06-01")


def _nested() -> Iterator[Tricky]:
    yield Tricky("inside", lambda f: f.r is not None and f.r.x == 1, "EqualTo(r.x,1)")
    yield Tricky("inside raises", lambda f: f.r.x == 1)
    yield Tricky(
        "deep inside",
        lambda f: f.r is not None and f.r.z is not None and f.r.z.w == 0.5,
        "EqualTo(r.z.w,0.5)",
    )
    yield Tricky("truth of an object", lambda f: f.r and f.r.x == 1)
    yield Tricky("deep raises", lambda f: f.r is not None and f.r.z.w == 0.5)
    yield Tricky("deep moment", lambda f: f.r and f.r.z and f.r.z.at and f.r.z.at.hour == 12)
    yield Tricky("an object is none", lambda f: f.r is None, "IsNull(r)")
    yield Tricky("inside and outside", lambda f: f.r is not None and f.r.y == f.u)
    yield Tricky("a tag", lambda f: f.tags is not None and "a" in f.tags)
    yield Tricky("no tag", lambda f: f.tags is not None and "a" not in f.tags)
    yield Tricky("tags", lambda f: f.tags and len(f.tags) > 1)
    yield Tricky("no tags", lambda f: not f.tags)
    yield Tricky("first tag", lambda f: f.tags and f.tags[0] == "a")
    yield Tricky("last number", lambda f: f.q and f.q[-1] == 2)
    yield Tricky("a number in it", lambda f: f.q is not None and 2 in f.q)
    yield Tricky("field in list", lambda f: f.tags is not None and f.s in f.tags)
    yield Tricky("sum of a list", lambda f: f.q and sum(f.q) == 3)
    yield Tricky("any in a list", lambda f: f.q is not None and any(x > 1 for x in f.q))
    yield Tricky("a list equals", lambda f: f.q == [1, 2])


def _members() -> Iterator[Tricky]:
    yield Tricky("in integers", lambda f: f.k in (1, 7, 12), "In(k, [")
    yield Tricky("in a range", lambda f: f.k in range(1, 8))
    yield Tricky("in steps", lambda f: f.k in range(0, 100, 4))
    yield Tricky("in mixed", lambda f: f.k in (1, 7.0, 2.5, None, "a"))
    yield Tricky("in a set", lambda f: f.s in WATCHED, "In(s")
    yield Tricky(
        "in a text's set by case", lambda f: f.s is not None and f.s.lower() in {"jfk", "a"}
    )
    yield Tricky("in a large set", lambda f: f.i in set(range(0, 500, 5)))
    yield Tricky("in booleans", lambda f: f.k in (True, False))
    yield Tricky("in with nan", lambda f: f.e in (1.0, math.nan))
    yield Tricky("a pair", lambda f: (f.s, f.k) in {("JFK", 7), ("a", 1)})
    yield Tricky("one of fields", lambda f: f.k in (f.t, 7))
    yield Tricky("a table's value", lambda f: PRICES.get(f.s, 0) > 1)
    yield Tricky("a table's item", lambda f: f.s in PRICES and PRICES[f.s] == 1)
    yield Tricky("any of constants", lambda f: any(f.k == x for x in (1, 7)))
    yield Tricky(
        "all of fields", lambda f: all(x is not None for x in (f.i, f.k, f.s)), "IsNotNull(i)"
    )


def _errors() -> Iterator[Tricky]:
    yield Tricky("int of nan", lambda f: f.e is not None and int(f.e) == 1)
    yield Tricky("root of a negative", lambda f: f.k is not None and math.sqrt(f.k) > 2)
    yield Tricky("a missing key", lambda f: PRICES[f.s] == 1)
    yield Tricky("a missing item", lambda f: f.tags is not None and f.tags[0] == "a")
    yield Tricky(
        "outside the calendar", lambda f: f.at is not None and f.at + timedelta(1000) > NOON
    )
    yield Tricky("a none has no lower", lambda f: f.s.lower() == "jfk" and f.k > 1)


def _early(f: Any) -> bool:
    if f.k is None:
        return False
    if f.k > 10:
        return True
    return bool(f.s == "JFK")


def _loop(f: Any) -> bool:
    for name in ("JFK", "LGA"):  # noqa: SIM110
        if f.s == name or f.u == name:
            return True
    return False


def _matching(f: Any) -> bool:
    match f.k:
        case None:
            return False
        case 1 | 7:
            return True
        case _:
            return bool(f.b)


def _near(value: int | None, of: int, by: int = 2) -> bool:
    return value is not None and abs(value - of) <= by


def _caught(f: Any) -> bool:
    try:
        return bool(f.k > 1)
    except TypeError:
        return False


class Above(FIFOFilter):
    def __init__(self, least: float) -> None:
        self.least = least

    def enqueue(self, event: Event) -> None:
        if event.content.f is not None and event.content.f > self.least:
            super().enqueue(event)


class Elsewhere(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        self.decide(event, event.content)

    def decide(self, event: Event, f: Any) -> None:
        if (f.s == "JFK" and (f.k is None or f.k >= 0)) or (f.d is not None and f.d.year == 2020):
            super().enqueue(event)


class Twice(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.k == 7:
            super().enqueue(event)
        if event.content.s == "JFK":
            super().enqueue(event)


class Changed(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.k == 7:
            super().enqueue(event)
            content = copy.copy(event.content)
            object.__setattr__(content, "k", 8)  # it may be frozen
            super().enqueue(event.replace(content))


class Rising(FIFOFilter):
    def __init__(self) -> None:
        self.highest = -math.inf

    def enqueue(self, event: Event) -> None:
        if event.content.f is not None and event.content.f > self.highest:
            self.highest = event.content.f
            super().enqueue(event)


class Third(FIFOFilter):
    def __init__(self) -> None:
        self.count = 0

    def enqueue(self, event: Event) -> None:
        if event.content.b:
            self.count += 1
            if self.count % 3 == 0:
                super().enqueue(event)


class Fresh(FIFOFilter):
    def __init__(self) -> None:
        self.seen: set[object] = set()

    def enqueue(self, event: Event) -> None:
        if event.content.s not in self.seen:
            self.seen.add(event.content.s)
            super().enqueue(event)


class Logged(FIFOFilter):
    effects = "ignore"

    def __init__(self) -> None:
        self.count = 0

    def enqueue(self, event: Event) -> None:
        self.count += 1
        if event.content.k == 7:
            super().enqueue(event)


def _programs() -> Iterator[Tricky]:
    yield Tricky("early returns", _early)
    yield Tricky("a loop", _loop, "Or(")
    yield Tricky("a match", _matching)
    yield Tricky("a helper", lambda f: _near(f.k, 7) or _near(f.t, 3, by=0))
    yield Tricky("a caught error", _caught)
    yield Tricky("a name in a condition", lambda f: (k := f.k) is not None and k > 1)
    yield Tricky("an argument", Above(2.5), "GreaterThan(f,2.5)")
    yield Tricky("elsewhere", Elsewhere)
    yield Tricky("forwards twice", Twice)
    yield Tricky("forwards a change", Changed)
    yield Tricky("rising", Rising)
    yield Tricky("each third", Third)
    yield Tricky("the first of each", Fresh)
    yield Tricky("counts, and need not", Logged, "EqualTo(k,7)")


TRICKY = [
    Tricky(f"{part.__name__[1:]}: {each.name}", each.filter, each.pushed)
    for part in (
        *(_nulls, _floats, _integers, _texts, _patterns, _decimals, _moments, _nested, _members),
        *(_errors, _programs),
    )
    for each in part()
]

# Those of which the extraction knows all, and which run Python in Spark, with the reason.
IN_PYTHON = {
    "floats: a long integer and a float": "integers above 2^53 beside a float",
    "floats: rounded to a digit": "Python rounds the decimal that the float stands for",
    "floats: text of a float": "the shortest text that is read back as this float",
    "integers: quotient of longs": "Python divides integers of any size before it rounds",
    "integers: bit_length": "SQL has no such function",
    "texts: title": "what a word is",
    "texts: int of a text": "what texts Python takes for integers",
    "decimals: a decimal and a float": "every binary digit of the float counts",
    "nested: truth of an object": "an object may have a truth of its own",
    "nested: deep moment": "an object may have a truth of its own",
    "nested: field in list": "a None may be in a list",
    "nested: sum of a list": "SQL has no such function",
    "nested: a list equals": "a None in a list equals another one",
    "members: in with nan": "a NaN is in a tuple that holds this very object",
    "programs: a caught error": "what follows an error is not in the predicate",
}
