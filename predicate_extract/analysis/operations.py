"""What operators make of values: comparisons, membership, truth and arithmetic.

Every function here gives a value or a condition that is right for all contents, or raises `Weaken`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType, UnionType

from predicate_extract.algebra.constants import Member, is_plain
from predicate_extract.algebra.cost import Undecided
from predicate_extract.algebra.enums import is_plain_enum, payload
from predicate_extract.algebra.functions import FUNCTIONS
from predicate_extract.algebra.predicate import (
    COMPARISONS,
    FALSE,
    MIRRORED,
    TRUE,
    Always,
    Compare,
    Defined,
    In,
    IsNull,
    Predicate,
    Truthy,
)
from predicate_extract.algebra.simplify import conjunction, disjunction, negation
from predicate_extract.algebra.terms import MAX_LEAVES, Call, Const, Field, Term, leaves
from predicate_extract.analysis.values import (
    ITERATOR,
    UNHEEDED,
    Choice,
    Display,
    Function,
    Known,
    Opaque,
    Unknown,
    Value,
    display,
    key_of,
    mentions_maybe,
)
from predicate_extract.report import Weaken

COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_ALWAYS_TRUE = (ModuleType, type, FunctionType, BuiltinFunctionType, re.Pattern)
_NUMBERS = ("integer", "float")
# What these give, or say, depends on the class of an argument, and not on what it equals.
_KEEP_CLASS = frozenset(
    {
        *("str", "format", "concat", "min", "max", "item", "get", "deep_get", "slice"),
        *("hasattr", "getattr"),
    }
)


class Uncertain(Exception):
    """A condition that is free to evaluate, does not raise, and whose answer is not known.

    `check` is what may raise all the same.
    """

    def __init__(self, of: Unknown, check: Predicate = TRUE) -> None:
        super().__init__()
        self.what, self.kind = of.what, of.kind
        self.check = check


BEFORE = "put tests of the event's fields before it"


# -- making terms ------------------------------------------------------------------------------


def as_term(value: Value) -> Term | None:
    """A value as an operand of the algebra, if it can be one."""
    match value:
        case Always(answer):
            return Const(answer)
        case Known(it=Enum() as it) if is_plain_enum(type(it)):
            plain = payload(it)
            return None if plain is None else Const(plain)
        case Known(it=range() as it):
            return Call("range", (Const(it.start), Const(it.stop), Const(it.step)))
        case Display(kind, items) if kind in ("tuple", "list", "set", "dict"):
            terms = [as_term(item) for item in items]
            whole = [term for term in terms if term is not None]
            return Call(kind, tuple(whole)) if len(whole) == len(terms) else None
        case Term() if not mentions_maybe(value):
            return value
    return None


def _is_enum(value: Value) -> bool:
    """Whether a value is, or holds, an enum's member that is taken for its plain value."""
    match value:
        case Known(Enum()):
            return True
        case Display("dict", items):
            return any(map(_is_enum, items[1::2]))
        case Display(_, items):
            return any(map(_is_enum, items))
    return False


def collection(kind: str, items: Iterable[Value]) -> Display:
    """A tuple, list, set or dict of values, as Python makes it.

    Raises: Weaken, if it is not known whether a key has a hash.
    """
    made = display(kind, items)
    for key in made.keys if made.hashed else ():
        hashed(key)
    return made


def apply(function: str, *args: Value) -> Value:
    """A function of the algebra's table on values; computed here if they are all constants.

    Raises: Weaken.
    """
    if (function in _KEEP_CLASS and any(map(_is_enum, args))) or (
        function in ("|", "^") and any(isinstance(arg, Known) for arg in args)
    ):
        raise Weaken("unsupported", f"{function} of an enum's member is not analysed")
    terms = [as_term(arg) for arg in args]
    whole = tuple(term for term in terms if term is not None)
    if len(whole) < len(args):
        raise Weaken("unsupported", f"{function} is not analysed for these values")
    if not any(term.fields() for term in whole):
        try:
            result = FUNCTIONS[function].run(*[term.compute(_no_field) for term in whole])
        except Undecided as error:
            raise Weaken("too-large", f"{error}") from error
        except Exception as error:
            raise Weaken("raises", f"this fails: {error}") from error
        if is_plain(result):
            return Const(result)
    call = Call(function, whole)
    if leaves(call) > MAX_LEAVES and not all(isinstance(term, Const) for term in whole):
        raise Weaken("too-large", "this expression has too many parts")
    return call


def _no_field(field: Field) -> object:
    raise TypeError(field)


def arithmetic(op: str, left: Value, right: Value) -> Value:
    """`left op right`."""
    match op, left, right:
        case "+", Display("tuple" | "list" as kind, one), Display(other, two) if kind == other:
            return Display(kind, (*one, *two))
        case "|", Display("set", one), Display("set", two):
            return display("set", (*one, *two))
        case "%", Const(str() | bytes()), _:
            raise Weaken("unsupported", "% formatting is not analysed", "use an f-string")
        case "*", Const(str() | bytes()), _:
            raise Weaken("unsupported", "repeating text is not analysed")
    match op, left, right:
        case "|", Known(type() | UnionType() as cls), Known(type() | UnionType() as other_cls):
            return Known(cls | other_cls)
    families = (_known_family(left), _known_family(right))
    unknown = left if isinstance(left, Unknown) else right
    if isinstance(unknown, Unknown):
        if set(families) <= {"integer", "float"} and op in "+-*":
            return replace(unknown, family="float" if "float" in families else "integer")
        raise Weaken("state", f"this computes with {unknown.what}", BEFORE)
    return apply(op, left, right)


def _known_family(value: Value) -> str | None:
    from predicate_extract.algebra.schema import family_of

    if isinstance(value, Unknown):
        return value.family
    return family_of(value.value) if isinstance(value, Const) else None


# -- truth -------------------------------------------------------------------------------------


def truth(value: Value, typed: bool) -> Predicate:
    """`bool(value)`. `typed`: the content is an object of a known class.

    Raises: Weaken, Uncertain.
    """
    match value:
        case Predicate():
            return value
        case Const(constant):
            return TRUE if constant else FALSE
        case Field(path) if not path and typed:
            raise Weaken("unsupported", "the truth of the whole content is not analysed")
        case Term():
            return Truthy(value)
        case Display(kind, items) if kind != ITERATOR:
            return TRUE if items else FALSE
        case Known(it) if isinstance(it, _ALWAYS_TRUE):
            return TRUE
        case Known(it=range() as it):
            return TRUE if it else FALSE
        case Known(it=Enum() as it) if is_plain_enum(type(it)):
            return _always(bool(it))
        case Function():
            return TRUE
        case Unknown(family, what):
            if family is None:
                raise Weaken("state", f"the truth of {what}, may be anything", BEFORE)
            raise Uncertain(value)
    raise Weaken("unsupported", "the truth of this object is not a condition on a field")


# -- comparisons -------------------------------------------------------------------------------


def compare(op: ast.cmpop, left: Value, right: Value, typed: bool) -> Predicate:
    """`left op right`.

    Raises: Weaken, Uncertain.
    """
    match op:
        case ast.Is():
            return _identical(left, right, typed)
        case ast.IsNot():
            return _opposite(lambda: _identical(left, right, typed))
        case ast.In():
            return _contains(right, left, typed)
        case ast.NotIn():
            return _opposite(lambda: _contains(right, left, typed))
    return _ordered(COMPARE[type(op)], left, right, typed)


def _opposite(condition: Callable[[], Predicate]) -> Predicate:
    return negation(condition())


def _identical(left: Value, right: Value, typed: bool) -> Predicate:
    match left, right:
        case Const(None), _:
            return _is_none(right, typed)
        case _, Const(None):
            return _is_none(left, typed)
        case Const(bool() as one), Const(two):
            return _always(one is two)
        case (Term() as one, Const(bool() as two)) | (Const(bool() as two), Term() as one):
            if isinstance(one, Predicate):
                return one if two else negation(one)
            return conjunction(
                Truthy(Call("isinstance", (one, Const("bool")))), Compare("==", one, Const(two))
            )
        case (Term(), Const(Member())) | (Const(Member()), Term()):
            return _ordered("==", left, right, typed)
        case Known(one), Known(two):
            return _always(one is two)
    raise Weaken("unsupported", "`is` compares objects, not what they hold", "use ==")


def _is_none(value: Value, typed: bool) -> Predicate:
    match value:
        case Const(constant):
            return _always(constant is None)
        case Predicate():
            return FALSE
        case Field(()) if typed:
            return FALSE
        case Term():
            return IsNull(value)
        case Opaque(field):
            return IsNull(field)
        case Unknown():
            raise Uncertain(value)
        case Known() | Display() | Function():
            return FALSE
    raise Weaken("unsupported", "whether this is None is not analysed")


def _always(answer: bool) -> Predicate:
    return TRUE if answer else FALSE


def _ordered(op: str, left: Value, right: Value, typed: bool) -> Predicate:
    if op in ("==", "!=") and None not in (key_of(left), key_of(right)):
        return _always((key_of(left) == key_of(right)) == (op == "=="))
    match left, right:
        case Display("tuple", one), Display("tuple", two) if op in ("==", "!="):
            pairs = list(zip(one, two, strict=False))
            if len(one) != len(two):
                return _always(op == "!=")
            if all(map(_settled_by_equality, one, two)):
                same = conjunction(*(_ordered("==", a, b, typed) for a, b in pairs))
                return same if op == "==" else negation(same)
        case Known(one), Known(two) if op in ("==", "!="):
            if isinstance(one, _ALWAYS_TRUE) and isinstance(two, _ALWAYS_TRUE):
                return _always((one is two) == (op == "=="))
    unknown = left if isinstance(left, Unknown) else right
    if isinstance(unknown, Unknown):
        raise _with_unknown(op, unknown, right if unknown is left else left)
    one, two = as_term(left), as_term(right)
    if one is None or two is None or (typed and Field(()) in (one, two)):
        raise Weaken("unsupported", "this comparison is not one of fields and constants")
    if isinstance(one, Const) and isinstance(two, Const):
        try:
            return _always(bool(COMPARISONS[op](one.value, two.value)))
        except (TypeError, ArithmeticError) as error:
            raise Weaken("raises", f"this comparison fails: {error}") from error
    # A constant on the left asks the field's value all the same.
    return Compare(MIRRORED[op], two, one) if isinstance(one, Const) else Compare(op, one, two)


def _with_unknown(op: str, unknown: Unknown, other: Value) -> Exception:
    """What a comparison with something unknown comes to: it may only raise in a known way."""
    term = as_term(other)
    if unknown.family is not None and op in ("==", "!="):
        return Uncertain(unknown, TRUE if term is None else _defined(term))
    if unknown.family == UNHEEDED:
        return Uncertain(unknown)
    if unknown.family in _NUMBERS:
        if _known_family(other) in _NUMBERS:
            return Uncertain(unknown)
        if term is not None and not isinstance(term, Const):
            # It raises for just those values that have no order with a number.
            return Uncertain(unknown, Defined(Compare("<", term, Const(0))))
    return Weaken("state", f"this compares with {unknown.what}", BEFORE)


def _defined(term: Term) -> Predicate:
    return TRUE if isinstance(term, Const) else Defined(term)


def _contains(container: Value, item: Value, typed: bool) -> Predicate:
    if isinstance(container, Display) and None not in map(key_of, (item, *container.keys)):
        return _always(any(key_of(item) == key_of(other) for other in container.keys))
    match container, item:
        case Display(), Term() if not isinstance(item, Predicate | Const):
            constants = container.constants()
            if constants is not None and not any(const.is_nan for const in constants):
                return In(item, tuple(dict.fromkeys(constants)), container.hashed)
        case Display(), Display("tuple") if _all_constant(container):
            same = [_ordered("==", item, other, typed) for other in container.keys]
            checks = [hashed(part) for part in item.items] if container.hashed else []
            return conjunction(*checks, disjunction(*same))
        case Unknown(family, what), _:
            term = as_term(item)
            if term is None:
                raise Weaken("unsupported", "this membership is not analysed")
            if family in ("set", "dict"):
                raise Uncertain(container, hashed(term))
            if family == "list":
                raise Uncertain(container, _defined(term))
            raise Weaken("state", f"this looks into {what}", BEFORE)
    inside, one = as_term(container), as_term(item)
    if inside is None or one is None or (typed and Field(()) in (inside, one)):
        raise Weaken("unsupported", "this membership is not one of fields and constants")
    if isinstance(container, Display) and not container.hashed and _settled_by_equality(item, one):
        # Values that are computed from the event: each is looked at, and then compared.
        checks = [_defined(term) for term in inside.operands()]
        same = [_ordered("==", one, other, typed) for other in container.items]
        return conjunction(*checks, disjunction(*same))
    return Truthy(Call("contains", (inside, one)))


def _settled_by_equality(one: Value, two: Value) -> bool:
    """Whether `==` decides alone; collections find a NaN by its identity."""
    return any(isinstance(side, Const) and not side.is_nan for side in (one, two))


def _all_constant(container: Display) -> bool:
    return all(
        isinstance(item, Display) and item.kind == "tuple" and item.constants() is not None
        for item in container.keys
    )


def hashed(value: Value) -> Predicate:
    """A check that a value has a hash.

    Raises: Weaken, if that is not known.
    """
    each = [row for _, row in value.rows] if isinstance(value, Choice) else [value]
    if None not in map(key_of, each):
        return TRUE
    term = as_term(value)
    if term is None:
        raise Weaken("unsupported", "whether this has a hash is not known")
    return TRUE if isinstance(term, Const) else Defined(Call("hash", (term,)))
