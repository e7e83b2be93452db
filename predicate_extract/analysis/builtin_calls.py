"""Following calls of built-in functions, and of methods of plain values, that have no effects."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import replace
from types import UnionType
from typing import Any

from predicate_extract.algebra.functions import ISINSTANCE, METHODS
from predicate_extract.algebra.predicate import TRUE, IsNull, Predicate, Truthy
from predicate_extract.algebra.simplify import conjunction, disjunction, negation
from predicate_extract.algebra.terms import Call, Const, Field, Term
from predicate_extract.analysis.arguments import python_object
from predicate_extract.analysis.code import MAKERS, Code
from predicate_extract.analysis.expressions import Expressions, refuse_private
from predicate_extract.analysis.following import Got, State
from predicate_extract.analysis.operations import BEFORE, Uncertain, apply, as_term, truth
from predicate_extract.analysis.scope import wrap
from predicate_extract.analysis.tree import Leaf, Tree
from predicate_extract.analysis.unpacking import iterated
from predicate_extract.analysis.values import Display, Known, Unknown, Value
from predicate_extract.report import Weaken

_FUNCTIONS: dict[Any, str] = {
    **{f: f.__name__ for f in (abs, min, max, round, int, float, str, bool, len, sum, hash)},
    math.isnan: "isnan",
    math.isinf: "isinf",
    math.isfinite: "isfinite",
    math.sqrt: "sqrt",
    math.floor: "floor",
    math.ceil: "ceil",
    math.trunc: "trunc",
    math.fabs: "abs",
}
MATCHING = ("search", "match", "fullmatch")
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
            case _ if it in (min, max, sum) and len(args) == 1:
                return self._folded(name or "", iterated(args[0]))
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
                return Truthy(apply("hasattr", *args))  # type: ignore[arg-type]
            case _ if it in _COLLECTIONS and len(args) <= 1:
                return _collection(_COLLECTIONS[it], it is sorted, args)
            case _ if it is enumerate and len(args) == 1:
                pairs = enumerate(iterated(args[0]))
                return Display("tuple", tuple(Display("tuple", (Const(i), v)) for i, v in pairs))
            case _ if it is zip:
                rows = zip(*map(iterated, args), strict=False)
                return Display("tuple", tuple(Display("tuple", tuple(row)) for row in rows))
            case _ if it is reversed and len(args) == 1:
                return Display("tuple", iterated(args[0])[::-1])
        return self._made(it, args, keywords)

    def _made(self, it: Any, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value | None:
        """What a constructor makes of constants."""
        if not any(it == maker for maker in MAKERS):
            return None
        plain = [python_object(arg) for arg in args]
        try:
            return wrap(
                it(*plain, **{key: python_object(value) for key, value in keywords.items()})
            )
        except (TypeError, ValueError, ArithmeticError, re.error) as error:
            raise Weaken("raises", f"this fails: {error}") from error

    def _truth(self, value: Value) -> Value:
        try:
            return truth(value, self.content.typed)
        except Uncertain:
            assert isinstance(value, Unknown)
            return replace(value, family="integer")

    def _folded(self, name: str, items: tuple[Value, ...]) -> Value:
        if name == "sum":
            items = (Const(0), *items)
        elif not items:
            raise Weaken("raises", f"{name} of nothing fails")
        total, *others = items
        for item in others:
            total = apply("+" if name == "sum" else name, total, item)
        return total

    def is_instance(self, value: Value, classes: Value) -> Predicate:
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
        pattern, text, *flags = args
        if "flags" in keywords:
            flags = [keywords["flags"]]
        bits = Const(0)
        if flags:
            bits = Const(int(python_object(flags[0])))
        if not isinstance(pattern, Const | Known):
            raise Weaken("unsupported", "a computed pattern is not analysed")
        found = pattern.value if isinstance(pattern, Const) else pattern.it
        if isinstance(found, re.Pattern) and not flags:
            found, bits = found.pattern, Const(found.flags)
        if not isinstance(found, str | bytes):
            raise Weaken("unsupported", "this pattern is not analysed")
        try:
            re.compile(found, bits.value)  # type: ignore[arg-type, type-var]
        except re.error as error:
            raise Weaken("raises", f"this pattern is wrong: {error}") from error
        flag = int(bits.value) & ~re.UNICODE.value if isinstance(found, str) else int(bits.value)  # type: ignore
        extra = (Const(flag),) if flag else ()
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
            case Known(re.Pattern() as pattern) if name in MATCHING and len(args) == 1:
                return self.matching(name, (Known(pattern), *args), keywords, state)
            case Display():
                return Leaf(Got(_of_display(of, name, args), state))
            case Unknown(family, what):
                if name in ("get", "keys", "values", "items", "count") and family in (
                    "dict",
                    "list",
                    None,
                ):
                    return Leaf(Got(Unknown(None, f"{name}() of {what}"), state))
            case Term():
                return self._of_term(of, name, args, keywords, state)
        raise Weaken("call", f"what the method {name} does is not known", BELOW)

    def _of_term(
        self,
        of: Term,
        name: str,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        state: State,
    ) -> Tree[Got]:
        if name in ("keys",) and not args:
            return Leaf(Got(of, state))  # a membership test asks the same of both
        if name in ("startswith", "endswith") and len(args) == 1 and isinstance(args[0], Display):
            tests = [Truthy(apply(name, of, item)) for item in args[0].items]  # type: ignore
            return Leaf(Got(disjunction(*tests), state))
        if name == "get" and 1 <= len(args) <= 2 and not keywords:
            default = args[1] if len(args) == 2 else Const(None)
            return Leaf(Got(apply("get", of, args[0], default), state))
        if name == "deep_get":
            default = keywords.pop("default", Const(None))
            if not keywords:
                return Leaf(Got(apply("deep_get", of, *args, default), state))
        if name == "join" and isinstance(of, Const) and len(args) == 1:
            return Leaf(Got(_joined(of, iterated(args[0])), state))
        if name == "format" and isinstance(of, Const):
            raise Weaken("unsupported", "str.format is not analysed", "use an f-string")
        if name not in METHODS or keywords:
            raise Weaken("call", f"what the method {name} does is not known", BELOW)
        return Leaf(Got(apply(name, of, *args), state))


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
        items = tuple(map(Const, sorted(item.value for item in items)))  # type: ignore
    return Display(kind, items)


def _of_display(of: Display, name: str, args: tuple[Value, ...]) -> Value:
    pairs = list(zip(of.items[::2], of.items[1::2], strict=True)) if of.kind == "dict" else []
    match name, args:
        case "get", (key, *default) if of.kind == "dict":
            if isinstance(key, Const) and of.constants() is not None:
                hits = [v for k, v in pairs if isinstance(k, Const) and k.value == key.value]
                return hits[-1] if hits else (default[0] if default else Const(None))
            return apply("get", of, key, default[0] if default else Const(None))
        case "keys", () if of.kind == "dict":
            return Display("tuple", of.keys)
        case "values", () if of.kind == "dict":
            return Display("tuple", tuple(value for _, value in pairs))
        case "items", () if of.kind == "dict":
            return Display("tuple", tuple(Display("tuple", pair) for pair in pairs))
        case "count", (item,) if of.kind in ("tuple", "list"):
            return apply("count", of, item)
    raise Weaken(
        "changes-state" if name in ("append", "add", "update", "pop", "extend") else "call",
        f"what the method {name} does is not followed",
        BELOW,
    )


def _length(of: Display) -> Const:
    constants = of.constants()
    if not of.hashed:
        return Const(len(of.items))
    if constants is None:
        raise Weaken("unsupported", "how many of these are equal is not analysed")
    return Const(len({const.value for const in constants}))


def _joined(separator: Const, items: tuple[Value, ...]) -> Value:
    if not isinstance(separator.value, str) or not items:
        raise Weaken("unsupported", "this join is not analysed")
    text: Value = Const("")
    for place, item in enumerate(items):
        if place and separator.value:
            text = apply("+", text, separator)
        text = apply("+", text, item)
    return text
