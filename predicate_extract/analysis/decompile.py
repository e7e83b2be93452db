"""Guesses at the syntax that a code object was compiled from.

A stack machine runs over the instructions, with pieces of syntax for values. `bytecode` proves the
outcome, so that nothing here has to be right; for a version other than CPython 3.11 to 3.13 it may
be wrong more often. Left out: loops, `try`, `with`, comprehensions; and inside: `def`, defaults.
"""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

from predicate_extract.analysis.branches import EXIT, Way, at, fold, negated, settle

MAX_COPIES = 16
"""The compiler copies the end of an expression no more often, or there is no guess."""

# What has no part in the syntax: caches, the cells of closures, the marker beside a callable.
_IGNORED = frozenset(
    {
        *("RESUME", "EXTENDED_ARG", "PRECALL", "PUSH_NULL", "TO_BOOL", "MAKE_CELL"),
        *("COPY_FREE_VARS",),
    }
)
_UNARY = {"NOT": "not", "NEGATIVE": "-", "INVERT": "~", "POSITIVE": "+"}
_CONVERSIONS = (-1, ord("s"), ord("r"), ord("a"))
_LOAD, _STORE = ast.Load(), ast.Store()


class _Unclear(Exception):
    """This code is left out."""


FAILED = (
    *(_Unclear, LookupError, AttributeError, TypeError, ValueError, SyntaxError),
    *(RecursionError, MemoryError),
)
"""What comes of a guess at code that is not as expected."""


def guesses(code: CodeType) -> Iterator[ast.FunctionDef | ast.Lambda]:
    """Trees that the code may come from.

    Raises: one of `FAILED`.
    """
    way = _Machine(code).run()
    if code.co_name == "<lambda>":
        if way.decision is None and not way.statements:
            yield at(way.stack[-1], ast.Lambda(_arguments(code), way.stack[-1]))
        return
    body = way.body()
    text = code.co_consts[0] if code.co_consts else None
    if isinstance(text, str) and code.co_flags & getattr(inspect, "CO_HAS_DOCSTRING", ~0):
        body.insert(0, ast.Expr(ast.Constant(text)))
    bodies = [body]
    match body:
        case [*others, ast.Return(ast.Constant(None))]:  # perhaps it is the compiler's
            bodies.insert(0, others or [ast.Pass()])
    for body in bodies:
        (tree,) = ast.parse(f"def {code.co_name}(): pass").body
        assert isinstance(tree, ast.FunctionDef)
        tree.args, tree.body = _arguments(code), body
        yield tree


def _arguments(code: CodeType) -> ast.arguments:
    names = [ast.arg(name) for name in code.co_varnames]
    first, second = code.co_posonlyargcount, code.co_argcount
    third = second + code.co_kwonlyargcount
    rest = iter(names[third:])
    return ast.arguments(
        posonlyargs=names[:first],
        args=names[first:second],
        vararg=next(rest) if code.co_flags & inspect.CO_VARARGS else None,
        kwonlyargs=names[second:third],
        kw_defaults=[None] * (third - second),
        kwarg=next(rest) if code.co_flags & inspect.CO_VARKEYWORDS else None,
        defaults=[],
    )


class _Machine:
    """Follows the instructions of 3.11 to 3.13, with syntax for values.

    What marks a place on the stack without a value (NULL) is never pushed: that is all in which the
    calls of these versions differ.
    """

    def __init__(self, code: CodeType) -> None:
        self._code = code
        self._root = self._way = Way(0, [])
        self._here: dis.Positions | None = None
        self._copied: list[ast.expr] = []
        self._named = False
        self._unpacked: list[tuple[ast.expr, ast.expr]] = []

    def run(self) -> Way:
        """All that the code does.

        Raises: one of `FAILED`.
        """
        found = list(dis.get_instructions(self._code))
        ways = [self._root]
        for each, following in zip(found, [*found[1:], None], strict=True):
            if each.is_jump_target or not ways:
                ways = self._meet(each.offset)
            if each.positions is not None and each.positions.lineno is not None:
                self._here = each.positions
            goto = EXIT if following is None else following.offset
            for way in ways:
                self._way, way.goto = way, goto
                if each.opname not in _IGNORED:
                    self._step(each.opname, each.arg or 0, each.argval, each.argrepr)
                if following is not None and _is_bool(each, following):
                    self._push(_unary("not", _unary("not", way.stack.pop())))
            ways = [end for way in ways for end in way.ends() if end.goto == goto]
            if each.opname != "PRECALL":
                self._named = each.opname == "KW_NAMES"
        fold(self._root)
        if any(way.goto != EXIT or len(way.stack) != 1 for way in self._root.ends()):
            raise _Unclear
        return self._root

    def _meet(self, offset: int) -> list[Way]:
        """The ways that lead to an instruction: one, unless the compiler copied what follows."""
        for combine in (fold, settle, fold):
            if sum(way.goto == offset for way in self._root.ends()) > 1:
                combine(self._root)
        ways = [way for way in self._root.ends() if way.goto == offset]
        if not 0 < len(ways) <= MAX_COPIES:
            raise _Unclear
        return ways

    def _push(self, node: ast.expr) -> None:
        node.origin = self._here  # type: ignore[attr-defined]
        self._way.stack.append(at(self._here, node))

    def _pop(self, count: int) -> list[ast.expr]:
        stack = self._way.stack
        if count > len(stack):
            raise _Unclear
        kept = len(stack) - count
        taken, stack[kept:] = stack[kept:], []
        return taken

    def _step(self, name: str, arg: int, value: Any, shown: str) -> None:
        stack = self._way.stack
        match name.split("_"):
            case ["NOP"]:
                if not stack and self._code.co_name != "<lambda>":
                    self._way.statements.append(at(self._here, ast.Pass()))
            case ["LOAD", "CONST"]:
                self._push(_constant(value))
            case ["LOAD", "FAST", *_] | ["LOAD", "DEREF" | "CLOSURE" | "GLOBAL"]:
                for each in value if isinstance(value, tuple) else [value]:
                    self._push(ast.Name(each, _LOAD))
            case ["LOAD", "ATTR" | "METHOD"]:
                self._push(ast.Attribute(stack.pop(), value, _LOAD))
            case ["LOAD", "SUPER", "ATTR"]:
                callee, *args = self._pop(3)
                self._push(ast.Call(callee, args if arg & 2 else [], []))
                self._push(ast.Attribute(stack.pop(), value, _LOAD))
            case ["STORE", "FAST", "LOAD", "FAST"]:
                self._store(ast.Name(value[0], _STORE))
                self._push(ast.Name(value[1], _LOAD))
            case ["STORE", "FAST", *_]:
                for each in value if isinstance(value, tuple) else [value]:
                    self._store(ast.Name(each, _STORE))
            case ["STORE", "DEREF"] if value in self._code.co_cellvars:
                self._store(ast.Name(value, _STORE))
            case ["STORE", "ATTR"]:
                self._store(ast.Attribute(stack.pop(), value, _STORE))
            case ["STORE", "SUBSCR"]:
                owner, key = self._pop(2)
                self._store(ast.Subscript(owner, key, _STORE))
            case ["BINARY", "SUBSCR"]:
                owner, key = self._pop(2)
                self._push(ast.Subscript(owner, key, _LOAD))
            case ["BINARY", "SLICE"]:
                owner, *ends = self._pop(3)
                self._push(ast.Subscript(owner, _slice(ends), _LOAD))
            case ["BINARY", "OP"]:
                left, right = self._pop(2)
                kind = _Augmented if shown.endswith("=") else ast.BinOp
                self._push(kind(left, _syntax(f"a {shown.rstrip('=')} b").op, right))
            case ["UNARY", operator]:
                self._push(_unary(_UNARY[operator], stack.pop()))
            case ["CALL", "INTRINSIC", "1"] if shown == "INTRINSIC_UNARY_POSITIVE":
                self._push(_unary("+", stack.pop()))
            case ["COMPARE" | "IS" | "CONTAINS" as kind, "OP"]:
                operator = {"IS": "is", "CONTAINS": "in"}.get(kind, value)
                left, right = self._pop(2)
                test = ast.Compare(left, _syntax(f"a {operator} b").ops, [right])
                if kind != "COMPARE" and arg:
                    test.ops = [ast.IsNot() if kind == "IS" else ast.NotIn()]
                self._push(test)
            case ["BUILD", "TUPLE"]:
                self._push(ast.Tuple(self._pop(arg), _LOAD))
            case ["BUILD", "LIST"]:
                self._push(ast.List(self._pop(arg), _LOAD))
            case ["BUILD", "SET"]:
                self._push(ast.Set(self._pop(arg)))
            case ["BUILD", "SLICE"]:
                self._push(_slice(self._pop(arg)))
            case ["BUILD", "MAP"]:
                items = self._pop(2 * arg)
                self._push(ast.Dict([*items[::2]], items[1::2]))
            case ["BUILD", "CONST", "KEY", "MAP"]:
                *values, keys = self._pop(arg + 1)
                self._push(ast.Dict([*_items(keys)], values))
            case ["BUILD", "STRING"]:
                parts = [each for part in self._pop(arg) for each in _parts(part)]
                self._push(ast.JoinedStr(parts))
            case ["LIST" | "SET", "EXTEND" | "UPDATE"] if arg == 1:
                self._push(_filled(*self._pop(2)))
            case ["FORMAT", "VALUE"]:
                spec = stack.pop() if arg & 4 else None
                self._format(stack.pop(), _CONVERSIONS[arg & 3], spec)
            case ["CONVERT", "VALUE"]:
                self._push(ast.FormattedValue(stack.pop(), _CONVERSIONS[arg]))
            case ["FORMAT", "SIMPLE"]:
                self._format(stack.pop(), -1, None)
            case ["FORMAT", "WITH", "SPEC"]:
                value, spec = self._pop(2)
                self._format(value, -1, spec)
            case ["KW", "NAMES"]:
                self._push(_constant(self._code.co_consts[arg]))
            case ["CALL"] | ["CALL", "KW"]:
                named = self._named or name == "CALL_KW"
                self._call(arg, _items(stack.pop()) if named else [])
            case ["MAKE", "FUNCTION"] if not arg & ~8:
                inner = stack.pop()
                self._pop(arg // 8)
                (tree,) = guesses(inner.value)  # type: ignore[attr-defined]
                if not isinstance(tree, ast.Lambda):
                    raise _Unclear
                self._push(tree)
            case ["SET", "FUNCTION", "ATTRIBUTE"] if arg == 8:
                self._push(self._pop(2)[1])
            case ["COPY"]:
                self._copied.append(stack[-arg])
                stack.append(stack[-arg])
            case ["SWAP"]:
                stack[-arg], stack[-1] = stack[-1], stack[-arg]
            case ["POP", "TOP"]:
                dropped = stack.pop()
                if not any(dropped is each for each in self._copied):
                    self._way.statements.append(at(self._here, ast.Expr(dropped)))
            case ["RETURN", "VALUE" | "CONST" as kind]:
                if kind == "CONST":
                    self._push(_constant(value))
                self._way.goto, self._way.place = EXIT, self._here
            case ["JUMP", "FORWARD"]:
                self._way.goto = value
            case ["POP", "JUMP", *forward, "IF", kind] if forward != ["BACKWARD"]:
                self._jump(kind, value, kept=False)
            case ["POP", "JUMP", *forward, "IF", "NOT", "NONE"] if forward != ["BACKWARD"]:
                self._jump("NOT NONE", value, kept=False)
            case ["JUMP", "IF", "FALSE" | "TRUE" as kind, "OR", "POP"]:
                self._jump(kind, value, kept=True)
            case _:
                raise _Unclear

    def _call(self, count: int, names: Sequence[ast.expr]) -> None:
        callee, *values = self._pop(count + 1)
        plain = count - len(names)
        keywords = [
            ast.keyword(ast.literal_eval(name), value)
            for name, value in zip(names, values[plain:], strict=True)
        ]
        self._push(ast.Call(callee, values[:plain], keywords))

    def _format(self, value: ast.expr, conversion: int, spec: ast.expr | None) -> None:
        match value:
            case ast.FormattedValue(inner, before):  # since 3.13, by an instruction of its own
                value, conversion = inner, before
        form = None if spec is None else ast.JoinedStr(_parts(spec))
        self._push(ast.JoinedStr([ast.FormattedValue(value, conversion, form)]))

    def _store(self, target: ast.expr) -> None:
        stack, value = self._way.stack, self._way.stack.pop()
        if stack and stack[-1] is value and isinstance(target, ast.Name):
            stack[-1] = at(self._here, ast.NamedExpr(target, value))
            return
        if isinstance(value, _Augmented):
            change: ast.stmt = ast.AugAssign(target, value.op, value.right)  # type: ignore[arg-type]
            self._way.statements.append(at(value, change))
            return
        self._unpacked.insert(0, (target, value))
        if stack:
            return
        (target, value), *others = self._unpacked
        self._unpacked = []
        if others:
            target = ast.Tuple([target, *(each for each, _ in others)], _STORE)
            value = at(value, ast.Tuple([value, *(each for _, each in others)], _LOAD))
        targets = [target]
        while isinstance(value, ast.NamedExpr):  # `a = b = value` is the same code
            targets.insert(0, value.target)
            value = value.value
        self._way.statements.append(at(value, ast.Assign(targets, value)))

    def _jump(self, kind: str, target: int, kept: bool) -> None:
        way, test = self._way, self._way.stack.pop()
        condition = negated(test) if kind == "TRUE" else test
        if "NONE" in kind:
            op = ast.Is() if kind == "NOT NONE" else ast.IsNot()
            condition = at(test, ast.Compare(test, [op], [at(test, ast.Constant(None))]))
        no = Way(target, [*way.stack, test] if kept else [*way.stack])
        way.decision = condition, Way(way.goto, [*way.stack]), no


class _Augmented(ast.BinOp):
    """What `+=` and the like computed, before it is stored."""


def _is_bool(each: dis.Instruction, following: dis.Instruction) -> bool:
    """Whether this is `not not`: since 3.13 a test where nothing is decided."""
    tested = each.opname == "TO_BOOL" or each.argrepr.startswith("bool(")
    name = following.opname
    return tested and "JUMP" not in name and name not in ("UNARY_NOT", "TO_BOOL", "EXTENDED_ARG")


def _syntax(text: str) -> Any:
    return ast.parse(text, mode="eval").body


def _unary(operator: str, operand: ast.expr) -> ast.expr:
    return at(operand, ast.UnaryOp(_syntax(f"{operator} a").op, operand))


def _constant(value: object) -> ast.expr:
    if isinstance(value, CodeType):
        return ast.Constant(value)  # type: ignore[arg-type]
    text = repr(value)
    if isinstance(value, frozenset):  # in an order that is always the same
        text = f"{{{', '.join(sorted(map(repr, value)))}}}"
    node: ast.expr = _syntax(text)
    for part in ast.walk(node):  # it stands where the instruction does
        for name in ast.expr._attributes:
            vars(part).pop(name, None)
    return node


def _slice(ends: Sequence[ast.expr]) -> ast.Slice:
    none = ast.dump(ast.Constant(None))
    return ast.Slice(*(None if ast.dump(end) == none else end for end in ends))


def _filled(display: ast.expr, items: ast.expr) -> ast.expr:
    match display, items:
        case ast.List([]), ast.Tuple(elements):
            return ast.List(elements, _LOAD)
        case ast.Set([]), ast.Set(elements):
            return ast.Set(elements)
    raise _Unclear


def _items(node: ast.expr) -> list[ast.expr]:
    if not isinstance(node, ast.Tuple):
        raise _Unclear
    return node.elts


def _parts(text: ast.expr) -> list[ast.expr]:
    return text.values if isinstance(text, ast.JoinedStr) else [text]
