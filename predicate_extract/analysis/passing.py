"""What a filter can do with its event and its content, whatever the predicate says.

Only what the text shows for certain counts: that nothing but the event itself is forwarded, and
which fields can be read.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable

from predicate_extract.analysis.fields import Reader
from predicate_extract.analysis.nodes import FunctionNode
from predicate_extract.analysis.source import Source

_HEADER = ("type", "supplier", "seq", "time", "datetime")
_CONSUMERS = frozenset(
    ("all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple")
)
_FRAMES = frozenset(("locals", "vars", "dir", "eval", "exec"))


def fields_read(
    source: Source, *, content: str | None = None, event: str | None = None
) -> frozenset[str] | None:
    """The fields that a function can read off the `content`, or the `event`, it is given; None if
    either may get out of its hands, to be read anywhere."""
    reader = Reader(source, content, event)
    if not reader.follows:
        return None
    parents = source.file.parents
    names: set[str] = set()
    for node in source.walk():
        match node:
            case ast.Call(ast.Name(id=function)) if function in _FRAMES:
                return None
            case ast.Name(ctx=ast.Load(), id=name) if name == event:
                parent = parents.get(node)
                if not (_is_forward(parent) or _reads_header(parent) or _is_content(parent)):
                    return None
                if _may_run_later(node, source):
                    return None
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) if (
                reader.path(node) == ()
            ):
                if _may_run_later(node, source):
                    return None
                match parents.get(node):
                    case ast.Attribute(attr=name, ctx=ast.Load()):
                        names.add(name)
                    case ast.Assign([ast.Name() as target], value) if (
                        value is node and reader.path(target) == ()
                    ):
                        pass
                    case _:
                        return None
    return frozenset(names)


def forwards_as_it_is(source: Source, event: str) -> bool:
    """Whether all that an `enqueue` can forward is the event it is given, once at the most."""
    if not Reader(source, None, event).follows:
        return False
    parents = source.file.parents
    for node in source.walk():
        match node:
            case ast.Attribute(attr="enqueue"):
                call = parents.get(node)
                if not (_is_forward(call) and _first(call) == event):
                    return False
                if any(isinstance(above, FunctionNode) for above in _above(node, source)):
                    return False
            case ast.Name(ctx=ast.Load(), id=name) if name == event:
                parent = parents.get(node)
                if not (_is_forward(parent) or _reads_header(parent) or _is_content(parent)):
                    return False
    if isinstance(source.node, ast.Lambda):
        return False
    return max(_most(source.node.body)) <= 1


def _may_run_later(node: ast.AST, source: Source) -> bool:
    """Whether a part of a function may run when the function has returned: it may be kept."""
    for above in _above(node, source):
        if isinstance(above, FunctionNode):
            return True
        if isinstance(above, ast.GeneratorExp):
            match source.file.parents.get(above):
                case ast.Call(ast.Name(id=name), [only]) if only is above and name in _CONSUMERS:
                    continue
            return True
    return False


def _above(node: ast.AST, source: Source) -> Iterable[ast.AST]:
    return source.file.nodes.above(node, source.node)


def _is_forward(node: ast.AST | None) -> bool:
    """`super().enqueue(one argument)`."""
    match node:
        case ast.Call(
            ast.Attribute(ast.Call(ast.Name(id="super"), [], []), "enqueue"), [ast.Name()], []
        ):
            return True
    return False


def _first(call: ast.AST | None) -> str | None:
    match call:
        case ast.Call(args=[ast.Name(id=name)]):
            return name
    return None


def _reads_header(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _HEADER and _loads(node)


def _is_content(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "content" and _loads(node)


def _loads(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _most(block: Iterable[ast.stmt]) -> tuple[float, float]:
    """How many times a block forwards at the most: where it is gone through to its end, and where
    it is left before that. `-inf`: neither happens."""
    goes_on, ended = 0.0, -math.inf
    for statement in block:
        if goes_on == -math.inf:  # nothing gets here
            break
        on, out = _of(statement)
        ended = max(ended, goes_on + out)
        goes_on += on
    return goes_on, ended


def _of(statement: ast.stmt) -> tuple[float, float]:
    match statement:
        case ast.Return() | ast.Raise():
            return -math.inf, _calls(statement)
        case ast.If(test, body, orelse):
            return _plus(_calls(test), _either(_most(body), _most(orelse)))
        case ast.Match(subject, cases):
            guards = sum(_calls(case.guard) for case in cases if case.guard)
            ways = _either((0.0, -math.inf), *(_most(case.body) for case in cases))
            return _plus(_calls(subject) + guards, ways)
        case ast.With(items, body):
            return _plus(sum(map(_calls, items)), _most(body))
        case ast.Try(body, handlers, orelse, final) | ast.TryStar(body, handlers, orelse, final):
            # Any part of the body may have been run before a handler is.
            parts = [body, orelse, final, *(handler.body for handler in handlers)]
            most = float(sum(_calls(each) for part in parts for each in part))
            return most, most
        case ast.For() | ast.While():
            most = math.inf if _calls(statement) else 0.0
            return most, most
    most = float(_calls(statement))
    return most, most if isinstance(statement, ast.Break | ast.Continue) else -math.inf


def _plus(more: float, ways: tuple[float, float]) -> tuple[float, float]:
    return more + ways[0], more + ways[1]


def _either(*ways: tuple[float, float]) -> tuple[float, float]:
    return max(on for on, _ in ways), max(out for _, out in ways)


def _calls(node: ast.AST) -> float:
    return float(sum(map(_is_forward, ast.walk(node))))
