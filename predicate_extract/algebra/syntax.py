"""What the text of a predicate is made of: names, constants, and how tightly what joins them binds.

The grammar is that of `text`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from predicate_extract.algebra.constants import Member, Plain

KEYWORDS = ("AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE", "DEFINED", "TRUTH")
# How tightly a text holds together; one is put in brackets within what binds more tightly.
BINDING = {"|": 5, "^": 6, "&": 7, "+": 8, "-": 8, "*": 9, "/": 9, "//": 9, "%": 9}
OR, AND, NOT, COMPARE, NEGATED, ATOM = 0, 1, 2, 3, 10, 11


def written_name(name: str, later: bool = False) -> str:
    plain = name.isidentifier() and name.isascii()
    taken = not later and (name == "content" or name in KEYWORDS)
    return name if plain and not taken else '"' + name.replace('"', '""') + '"'


def written_constant(value: Plain) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return str(value) if value.bit_length() < 4096 else hex(value)
        case float():
            text = repr(value)
            return f"FLOAT '{text}'" if text.strip("-") in ("nan", "inf") else text
        case str():
            return _quoted(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP {_quoted(_moment(value))}"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"TIME '{value.isoformat()}'"
        case timedelta():
            micros = value // timedelta(microseconds=1)
            return f"INTERVAL '{Decimal(micros).scaleb(-6).normalize():f}'"
        case Decimal():
            return f"DECIMAL '{value}'"
        case Member(of, name, home):
            return f"ENUM {_quoted(f'{home}:{of}.{name}' if home else f'{of}.{name}')}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _moment(value: datetime) -> str:
    fold = "/1" if value.fold else ""
    if isinstance(value.tzinfo, ZoneInfo):
        return f"{value.replace(tzinfo=None, fold=0).isoformat(' ')}[{value.tzinfo.key}]{fold}"
    return value.replace(fold=0).isoformat(" ") + fold


def unquoted(text: str) -> str:
    """What a text in quotes of either kind stands for."""
    return text[1:-1].replace(text[0] * 2, text[0])


def _read_moment(text: str) -> datetime:
    fold = text.endswith("/1")
    plain, _, zone = text.removesuffix("/1").partition("[")
    moment = datetime.fromisoformat(plain).replace(fold=int(fold))
    return moment.replace(tzinfo=ZoneInfo(zone.rstrip("]"))) if zone else moment


def _read_member(text: str) -> Member:
    home, _, path = text.rpartition(":")
    of, dot, name = path.partition(".")
    if not dot:
        raise ValueError("expected 'Class.MEMBER' or 'module:Class.MEMBER'")
    return Member(of, name, home)


# The words that make a constant of the text in quotes behind them.
READERS: dict[str, Callable[[str], Plain]] = {
    "X": bytes.fromhex,
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
    "TIMESTAMP": _read_moment,
    "INTERVAL": lambda text: timedelta(microseconds=int(Decimal(text).scaleb(6))),
    "DECIMAL": Decimal,
    "FLOAT": float,
    "ENUM": _read_member,
}
