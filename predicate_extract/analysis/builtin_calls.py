"""Following calls of built-in functions, and of methods of plain values, that have no effects."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import replace
from types import UnionType
from typing import Any

from predicate_extract.algebra.functions import ISINSTANCE, MATCHING, METHODS
from predicate_extract.algebra.linear import NotLinear, linear
from predicate_extract.algebra.predicate import FALSE, TRUE, IsNull, Predicate
from predicate_extract.algebra.simplify import checked, conjunction, disjunction, negation
from predicate_extract.algebra.terms import Call, Const, Field, Term
from predicate_extract.analysis.arguments import python_object
from predicate_extract.analysis.choices import holds_one
from predicate_extract.analysis.code import MAKERS, Code
from predicate_extract.analysis.expressions import Expressions, refuse_private
from predicate_extract.analysis.following import Got, State
from predicate_extract.analysis.operations import (
    BEFORE,
    Uncertain,
    apply,
    as_term,
    collection,
    hashed,
    truth,
)
from predicate_extract.analysis.scope import wrap
from predicate_extract.analysis.tree import Leaf, Tree, check
from predicate_extract.analysis.unpacking import iterated
from predicate_extract.analysis.values import (
    ITERATOR,
    VIEW,
    Choice,
    Display,
    Known,
    Unknown,
    Value,
    key_of,
)
from predicate_extract.report import Weaken

_FUNCTIONS: dict[Any, str] = {
    **{f: f.__name__ for f in (abs, min, max, round, int, float, str, bool, len, sum)},
    math.isnan: "isnan",
    math.isinf: "isinf",
    math.isfinite: "isfinite",
    math.sqrt: "sqrt",
    math.floor: "floor",
    math.ceil: "ceil",
    math.trunc: "trunc",
    math.fabs: "abs",
}
_COLLECTIONS = {tuple: "tuple", list: "list", set: "set", frozenset: "set", sorted: "list"}
BELOW = "call it below the guard, or compare fields with constants"


class BuiltinCalls(Expressions):
    """Knows the functions and methods without effects."""

    def builtin(self, it: Any, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value | None:
        """What a built-in function without effects gives; None if it is not one."""
        try:
            name = _FUNCTIONS.get(it)
        except TypeError:  # no hash
            return None
        if it is functools.reduce or keywords:
            return self._made(it, args, keywords)
        match it, args:
            case _ if name is not None and it is bool and len(args) == 1:
                return self._truth(args[0])
            case _ if it is len and len(args) == 1 and isinstance(args[0], Display):
                return _length(args[0])
            case _ if it is sum and len(args) == 1 and not isinstance(args[0], Field | Call):
                return apply("sum", Display("tuple", iterated(args[0])))
            case _ if it in (min, max) and len(args) == 1:
                return _extreme(name or "", iterated(args[0]))
            case _ if name is not None and args:
                for arg in args:
                    if isinstance(arg, Unknown):
                        raise Weaken("state", f"this computes with {arg.what}", BEFORE)
                return apply(name, *args)
            case _ if it in (any, all) and len(args) == 1:
                join = disjunction if it is any else conjunction
                if isinstance(args[0], Field | Call):
                    return apply(it.__name__, args[0])
                return join(*(truth(item, self.content.typed) for item in iterated(args[0])))
            case _ if it is isinstance and len(args) == 2:
                return self.is_instance(args[0], args[1])
            case _ if it is getattr and len(args) in (2, 3):
                return self._getattr(*args)
            case _ if it is hasattr and len(args) == 2 and self.content.schema is None:
                return truth(apply("hasattr", *args), False)
            case _ if it in _COLLECTIONS and len(args) <= 1:
                return _collection(_COLLECTIONS[it], it is sorted, args)
            case _ if it is enumerate and len(args) == 1:
                pairs = enumerate(iterated(args[0]))
                return Display(ITERATOR, tuple(Display("tuple", (Const(i), v)) for i, v in pairs))
            case _ if it is zip:
                rows = zip(*map(iterated, args), strict=False)
                return Display(ITERATOR, tuple(Display("tuple", tuple(row)) for row in rows))
            case _ if it is reversed and len(args) == 1:
                return Display(ITERATOR, iterated(args[0])[::-1])
        return self._made(it, args, keywords)

    def _made(self, it: Any, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value | None:
        """What a constructor makes of constants."""
        if not any(it == maker for maker in MAKERS):
            return None
        try:
            plain = [python_object(arg) for arg in args]
            named = {key: python_object(value) for key, value in keywords.items()}
            return wrap(it(*plain, **named))
        except (TypeError, ValueError, ArithmeticError, re.error) as error:
            raise Weaken("raises", f"this fails: {error}") from error

    def _truth(self, value: Value) -> Value:
        try:
            return truth(value, self.content.typed)
        except Uncertain:
            assert isinstance(value, Unknown)
            return replace(value, family="integer")

    def is_instance(self, value: Value, classes: Value) -> Predicate:
        if isinstance(value, Choice):
            keys = _instances(value, _classes(classes))
            if keys and len(keys) < len(value.rows):
                return holds_one(value.field, keys)
            test = checked(value.field) if self.content.can_raise(checked(value.field)) else TRUE
            return test if keys else conjunction(test, FALSE)
        names: list[Const] = []
        for cls in _classes(classes):
            if isinstance(value, Field) and self.content.surely_is(value, cls):
                return TRUE if not value.path else negation(IsNull(value))
            name = _isinstance_name(cls)
            if name is None:
                raise Weaken("unsupported", "isinstance of such a class is not analysed")
            names.append(Const(name))
        term = as_term(value)
        if term is None:
            raise Weaken("unsupported", "isinstance of this is not analysed")
        result = apply("isinstance", term, *names)
        return truth(result, False)

    def _getattr(self, owner: Value, name: Value, *default: Value) -> Value:
        if not isinstance(name, Const) or not isinstance(name.value, str):
            raise Weaken("unsupported", "getattr of a computed name is not analysed")
        refuse_private(name.value)
        if isinstance(owner, Field) and (not default or self.content.schema is not None):
            found = self.content.member(owner, name.value)
            if not isinstance(found, Code):
                return found
        elif isinstance(owner, Field):
            return apply("getattr", owner, name, *default)
        raise Weaken("unsupported", "getattr of this is not analysed")

    def matching(
        self, how: str, args: tuple[Value, ...], keywords: dict[str, Value], state: State
    ) -> Tree[Got]:
        if not 2 <= len(args) + len(keywords) <= 3 or len(args) < 2 or set(keywords) - {"flags"}:
            raise Weaken("unsupported", "these arguments of a match are not analysed")
        pattern, text, *more = (*args, *keywords.values())
        flags = python_object(more[0]) if more else 0
        found = python_object(pattern)
        if isinstance(found, re.Pattern) and not more:
            found, flags = found.pattern, found.flags
        if not isinstance(found, str | bytes) or not isinstance(flags, int):
            raise Weaken("unsupported", "this pattern is not analysed")
        try:
            re.compile(found, flags)
        except (re.error, ValueError) as error:
            raise Weaken("raises", f"this pattern is wrong: {error}") from error
        if isinstance(found, str):
            flags &= ~re.UNICODE  # which is meant anyway
        try:
            linear(found, flags, how)
        except NotLinear as error:
            unknown = Unknown("match", f"a pattern that may take long, because {error}", "pattern")
            # It raises for what is no text, as the empty pattern does.
            return self.checked(apply(how, text, Const(found[:0])), Leaf(Got(unknown, state)))
        extra = (Const(int(flags)),) if flags else ()
        return Leaf(Got(apply(how, text, Const(found), *extra), state))

    def method_of(
        self,
        of: Value,
        name: str,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        state: State,
    ) -> Tree[Got]:
        match of:
            case Known(re.Pattern()) if name in MATCHING and len(args) == 1 and not keywords:
                return self.matching(name, (of, *args), {}, state)
            case Display() if not keywords:
                return Leaf(Got(_of_display(of, name, args), state))
            case Unknown("dict", what) if name == "get" and args and not keywords:
                found = Leaf(Got(Unknown(None, f"{name}() of {what}"), state))
                return check(hashed(args[0]), found)
            case Term():
                return Leaf(Got(_of_term(of, name, args, keywords), state))
        raise Weaken("call", f"what the method {name} does is not known", BELOW)


def _of_term(of: Term, name: str, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
    if name == "deep_get" and set(keywords) <= {"default"}:
        return apply("deep_get", of, *args, keywords.get("default", Const(None)))
    match name, args:
        case _ if name not in METHODS or keywords:
            pass
        case "startswith" | "endswith", (Display("tuple", items),) if items:
            if all(isinstance(item, Const) and isinstance(item.value, str) for item in items):
                return disjunction(*(truth(apply(name, of, item), False) for item in items))
        case "get", (_, *default) if len(default) <= 1:
            return apply("get", of, args[0], *(default or [Const(None)]))
        case _:
            return apply(name, of, *args)
    if name == "join" and isinstance(of, Const) and len(args) == 1 and not keywords:
        return _joined(of, iterated(args[0]))
    raise Weaken("call", f"what the method {name} does is not known", BELOW)


def _instances(choice: Choice, classes: tuple[object, ...]) -> list[Const]:
    """The constants whose values are instances of one of the classes."""
    for cls in classes:
        own = isinstance(cls, type) and type(cls).__instancecheck__ is type.__instancecheck__
        if not own and _isinstance_name(cls) is None:
            raise Weaken("unsupported", "isinstance of such a class is not analysed")
    return [key for key, row in choice.rows if isinstance(python_object(row), classes)]  # type: ignore


def _classes(value: Value) -> tuple[object, ...]:
    match value:
        case Display(_, items):
            return tuple(cls for item in items for cls in _classes(item))
        case Known(UnionType() as union):
            return union.__args__
        case Known(it):
            return (it,)
    raise Weaken("unsupported", "isinstance of computed classes is not analysed")


def _isinstance_name(cls: object) -> str | None:
    return next((name for name, known in ISINSTANCE.items() if known is cls), None)


def _collection(kind: str, ordered: bool, args: tuple[Value, ...]) -> Value:
    items = iterated(args[0]) if args else ()
    if ordered:
        if not all(isinstance(item, Const) for item in items):
            raise Weaken("unsupported", "sorting fields is not analysed")
        try:
            items = tuple(map(Const, sorted(item.value for item in items)))  # type: ignore
        except TypeError as error:
            raise Weaken("raises", f"this fails: {error}") from error
    return collection(kind, items)


def _extreme(name: str, items: tuple[Value, ...]) -> Value:
    if not items:
        raise Weaken("raises", f"{name} of nothing fails")
    first, *others = items
    for item in others:
        first = apply(name, first, item)
    return first


def _of_display(of: Display, name: str, args: tuple[Value, ...]) -> Value:
    pairs = list(zip(of.items[::2], of.items[1::2], strict=True)) if of.kind == "dict" else []
    if name in ("keys", "values", "items") and not of.settled:
        raise Weaken("unsupported", "which of these keys are equal is not analysed")
    match name, args:
        case "get", (key, *default) if of.kind == "dict":
            if key_of(key) is not None and of.settled:
                hits = [value for known, value in pairs if key_of(known) == key_of(key)]
                return hits[0] if hits else (default[0] if default else Const(None))
            return apply("get", of, key, default[0] if default else Const(None))
        case "keys", () if of.kind == "dict":
            return Display(VIEW, of.keys)
        case "values", () if of.kind == "dict":
            return Display(VIEW, tuple(value for _, value in pairs))
        case "items", () if of.kind == "dict":
            return Display(VIEW, tuple(Display("tuple", pair) for pair in pairs))
        case "count", (item,) if of.kind in ("tuple", "list"):
            return apply("count", of, item)
    raise Weaken(
        "changes-state" if name in ("append", "add", "update", "pop", "extend") else "call",
        f"what the method {name} does is not followed",
        BELOW,
    )


def _length(of: Display) -> Const:
    if of.kind == ITERATOR or not of.settled:
        raise Weaken("unsupported", "how many these are is not analysed")
    return Const(len(of.keys))


def _joined(separator: Const, items: tuple[Value, ...]) -> Value:
    if not isinstance(separator.value, str) or not items:
        raise Weaken("unsupported", "this join is not analysed")
    text: Value = Const("")
    for place, item in enumerate(items):
        if place and separator.value:
            text = apply("+", text, separator)
        text = apply("+", text, item)
    return text
