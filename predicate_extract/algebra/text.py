"""How the text of a predicate is read; it is like SQL's WHERE. `str` writes it: see `syntax`.

    text       = any text below, loosest first
    OR, AND, NOT
    = != < <= > >=, [NOT] IN (a, b), [NOT] IN {a, b} (a set), IS [NOT] NULL
    | ^ &, + -, * / // %, -
    field      price   route.origin   tags['x'][0]   content['a'] (the content is a mapping)
    function   lower(name)   startswith(name, 'A')   DEFINED(a / b)
    constant   NULL TRUE FALSE 1 2.5 'it''s' X'00ff' DATE '2024-01-31' TIME '17:30:00'
               INTERVAL '90' (seconds)
               TIMESTAMP '2024-01-31 12:00:00+00:00' DECIMAL '0.1' FLOAT 'nan' ENUM 'Level.HIGH'
               ENUM 'module:Level.HIGH' (where the field's own class is not known)

A term that stands where a condition should is its truth; elsewhere that is `TRUTH(term)`.
`"quoted"` names are fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from predicate_extract.algebra.functions import FUNCTIONS
from predicate_extract.algebra.predicate import (
    Always,
    And,
    Compare,
    Defined,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Truthy,
)
from predicate_extract.algebra.syntax import BINDING, KEYWORDS, NEGATED, READERS, unquoted
from predicate_extract.algebra.terms import Call, Const, Field, Term
from predicate_extract.errors import PredicateFormatError

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>0x[0-9a-f]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<name>[A-Za-z_]\w*)
    | (?P<symbol><=|>=|!=|//|[-+*/%&|^=<>()\[\]{},.])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


def parse(text: str) -> Predicate:
    """The predicate that `text` stands for.

    Raises: PredicateFormatError.
    """
    try:
        return _Parser(text).whole()
    except RecursionError:
        raise PredicateFormatError("The predicate is nested too deeply.") from None


def _tokens(text: str) -> Iterator[_Token]:
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            raise PredicateFormatError(f"Expected a predicate, got {text[place:].strip()[:40]!r}.")
        yield _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
        place = found.end()
    yield _Token("end", "", end)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    def whole(self) -> Predicate:
        predicate = _condition(self._or())
        if self._next.kind != "end":
            raise self._unexpected("the end, AND or OR")
        return predicate

    # -- tokens --------------------------------------------------------------------------------

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> str | None:
        token = self._next
        if token.kind in ("symbol", "name") and token.text in texts:
            self._at += 1
            return token.text
        return None

    def _need(self, text: str) -> None:
        if self._take(text) is None:
            raise self._unexpected(repr(text))

    def _pop(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _unexpected(self, expected: str) -> PredicateFormatError:
        token = self._next
        got = repr(token.text) if token.text else "the end"
        return PredicateFormatError(
            f"Expected {expected}, got {got} at column {token.place + 1} of {self._text[:200]!r}."
        )

    # -- conditions ----------------------------------------------------------------------------

    def _or(self) -> Term:
        return self._joined(self._and, "OR", Or)

    def _and(self) -> Term:
        return self._joined(self._not, "AND", And)

    def _joined(
        self, one: Callable[[], Term], word: str, kind: Callable[[tuple[Predicate, ...]], Term]
    ) -> Term:
        first = one()
        parts = [first]
        while self._take(word):
            parts.append(one())
        return first if len(parts) == 1 else kind(tuple(map(_condition, parts)))

    def _not(self) -> Term:
        return Not(_condition(self._not())) if self._take("NOT") else self._comparison()

    def _comparison(self) -> Term:
        left = self._arithmetic(5)
        if op := self._take("=", "!=", "<", "<=", ">", ">="):
            return Compare("==" if op == "=" else op, left, self._arithmetic(5))
        if self._take("IS"):
            negated = self._take("NOT")
            self._need("NULL")
            return Not(IsNull(left)) if negated else IsNull(left)
        negated = self._take("NOT")
        if self._take("IN"):
            hashed = self._take("{")
            if not hashed:
                self._need("(")
            values = self._constants("}" if hashed else ")")
            test = In(left, values, hashed is not None)
            return Not(test) if negated else test
        if negated:
            raise self._unexpected("IN")
        return left

    def _constants(self, closing: str) -> tuple[Const, ...]:
        values = []
        for term in self._list(closing):
            if not isinstance(term, Const):
                raise PredicateFormatError(f"IN takes constants, and {term} is none.")
            values.append(term)
        return tuple(values)

    # -- terms ---------------------------------------------------------------------------------

    def _list(self, closing: str) -> list[Term]:
        terms: list[Term] = []
        while not self._take(closing):
            if terms:
                self._need(",")
            terms.append(self._or())
        return terms

    def _arithmetic(self, rank: int) -> Term:
        if rank == NEGATED:
            return self._negated()
        left = self._arithmetic(rank + 1)
        while op := self._take(*(op for op, own in BINDING.items() if own == rank)):
            left = Call(op, (left, self._arithmetic(rank + 1)))
        return left

    def _negated(self) -> Term:
        if not self._take("-"):
            return self._primary()
        number = self._next.kind == "number"
        part = self._negated()
        if number and isinstance(part, Const) and isinstance(part.value, int | float):
            return Const(-part.value)
        return Call("neg", (part,))

    def _primary(self) -> Term:
        token = self._next
        if self._take("("):
            inside = self._or()
            self._need(")")
            return inside
        match token.kind, token.text:
            case "number", text:
                self._pop()
                return Const(int(text, 0) if text.isdigit() or text[:2] == "0x" else float(text))
            case "string", text:
                self._pop()
                return Const(unquoted(text))
            case "name", ("NULL" | "TRUE" | "FALSE") as word:
                self._pop()
                return Const({"NULL": None, "TRUE": True, "FALSE": False}[word])
            case "name", word if word in READERS and self._tokens[self._at + 1].kind == "string":
                self._pop()
                return self._literal(word, unquoted(self._pop().text))
            case "name", word if self._tokens[self._at + 1].text == "(":
                return self._call(self._pop().text)
            case "name", word if word not in KEYWORDS:
                self._pop()
                return self._steps(Field(()) if word == "content" else Field((word,)))
            case "quoted", text:
                self._pop()
                return self._steps(Field((unquoted(text),)))
        raise self._unexpected("a field, a constant or a function")

    def _call(self, name: str) -> Term:
        self._need("(")
        args = self._list(")")
        if name in ("DEFINED", "TRUTH") and len(args) == 1:
            if name == "TRUTH":
                return Truthy(args[0])
            boolean = isinstance(args[0], Const) and isinstance(args[0].value, bool)
            return Defined(_condition(args[0]) if boolean else args[0])
        if name not in FUNCTIONS:
            raise PredicateFormatError(f"There is no function {name!r} in predicates.")
        return Call(name, tuple(args))

    def _steps(self, field: Field) -> Field:
        while True:
            if self._take("."):
                token = self._pop()
                if token.kind not in ("name", "quoted"):
                    self._at -= 1
                    raise self._unexpected("a name")
                name = token.text if token.kind == "name" else unquoted(token.text)
                field = field.step(name)
            elif self._take("["):
                key = self._negated()
                if not (isinstance(key, Const) and type(key.value) in (str, int)):
                    raise PredicateFormatError(f"{key} is not the key of an item.")
                field = field.step(key.value, keyed=True)  # type: ignore[arg-type]
                self._need("]")
            else:
                return field

    def _literal(self, word: str, text: str) -> Const:
        try:
            return Const(READERS[word](text))
        except (ValueError, ArithmeticError) as error:
            raise PredicateFormatError(f"{word} '{text}' cannot be read: {error}") from error


def _condition(term: Term) -> Predicate:
    match term:
        case Predicate():
            return term
        case Const(bool() as value):
            return Always(value)
    return Truthy(term)
