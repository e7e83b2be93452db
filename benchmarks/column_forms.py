"""A filter of the corpus as a function of columns, which is what other extractors take.

Made by rewriting its `ast`, in favour of whoever gets it:

- what it reads off the content, by fields, items, `get` or `deep_get` with constant keys, becomes a
  parameter, and so does a local that only names that;
- constants of globals, closures, defaults, and of the filter itself are written in; members of an
  enum are their names;
- `super().enqueue(event)` becomes `return True`; what follows an early return becomes its `else`.

Code is not followed: what hands the content, or the filter, to other code has no such form; nor has
what keeps state, or forwards something else. A form is run beside the filter before it counts.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import inspect
import io
import keyword
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from inspect import Parameter
from itertools import count
from types import FunctionType, SimpleNamespace
from typing import Any

from corpus_runs import Played
from form_code import compiled, folded, nested
from form_columns import MISSING, NoForm, columns_of, kind_of, plain

from activebroker import FIFOFilter
from predicate_extract.analysis.source import trusted_source
from predicate_extract.report import Weaken
from tests.corpus.case import Case


@dataclass(frozen=True)
class Form:
    """`rule` takes the columns; `condition` too, or a dict of them (`row`) if there are several.

    `columns` has the values of the rows that columns can hold: those of one type each, that can be
    read, and on which the filter does not raise. `forwarded` says what the filter did with them.
    """

    rule: FunctionType
    condition: FunctionType
    columns: dict[str, list[Any]]
    forwarded: list[bool]


def form(case: Case, played: Sequence[Played]) -> Form:
    """The form of a case, checked on these events.

    Raises: NoForm.
    """
    if any(construct.startswith("state-") for construct in case.constructs):
        raise NoForm("keeps state")
    rewriting = _Rewriting(case, [event.content for event in played])
    body = rewriting.body()
    if not rewriting.reads:
        raise NoForm("reads no field")
    usable = [event for event in played if not event.raised]
    columns, rows = columns_of(rewriting.reads, [event.content for event in usable])
    forwarded = [usable[row].forwarded for row in rows]
    annotated = {name: kind_of(values) for name, values in columns.items()}
    rule = compiled(body, annotated, rewriting.names)
    condition = compiled(folded(body), annotated, rewriting.names, row=len(columns) > 1)
    logging.disable()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            answers = [bool(rule(*values)) for values in zip(*columns.values(), strict=True)]
    except Exception as error:  # whatever the code raises
        raise NoForm(f"reads more of an object than its fields: {error!r}") from error
    finally:
        logging.disable(logging.NOTSET)
    if not rows or answers != forwarded:
        raise NoForm("the form does something else")
    return Form(rule, condition, columns, forwarded)


class _Rewriting(ast.NodeTransformer):
    """Makes the body of a function of the content one of columns.

    `reads` has a parameter's function of the content, `names` what the body names besides.
    """

    def __init__(self, case: Case, contents: Sequence[Any]) -> None:
        self.reads: dict[str, Callable[[Any], Any]] = {}
        self._contents = contents
        self._parameters: dict[str, str] = {}
        self._aliases: dict[str, ast.expr] = {}
        self._forwards: set[str] = set()
        # The names of the content, of a function, or of the filter and the event, of a method.
        self._content = self._own = self._event = ""
        self._self: Any = None
        function, bound = _function_of(case)
        try:
            self._node = copy.deepcopy(trusted_source(function).node)
        except Weaken as weaken:
            raise NoForm(str(weaken)) from weaken
        closure = inspect.getclosurevars(function).nonlocals
        self.names = {**vars(builtins), **function.__globals__, **closure, **bound}
        arguments = [argument.arg for argument in self._node.args.args]
        free = [name for name in arguments if name not in bound]
        if isinstance(case.target, type):
            if case.target.__mro__[1].enqueue is not FIFOFilter.enqueue:
                raise NoForm("hands the event to a filter under it")
            self._self = case.target(*case.args)
            self._own, self._event = free[0], free[1]
        elif free:
            self._content = free[0]
        else:
            raise NoForm("is wrapped by a decorator")
        stored = [
            node.id
            for node in ast.walk(self._node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        self._stored = Counter([*stored, *free])
        self._taken = {node.id for node in ast.walk(self._node) if isinstance(node, ast.Name)}

    def body(self) -> list[ast.stmt]:
        """The statements. Raises: NoForm."""
        given = self._node.body
        statements = given if isinstance(given, list) else [ast.Return(given)]
        if ast.get_docstring(ast.Module(statements, [])) is not None:
            statements = statements[1:]
        body = nested(self._block(statements))
        left = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
        own = {self._own, self._event, self._content}
        if left & (own | self._aliases.keys() | self._forwards) or "super" in left:
            raise NoForm("hands the content to other code")
        return body

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in statements:
            rewritten = self.visit(statement)
            if rewritten is not None:
                found.append(rewritten)
            if isinstance(rewritten, ast.Return):
                break
        return found or [ast.Pass()]

    # -- statements ------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> ast.stmt:
        test, body = self.visit(node.test), self._block(node.body)
        return ast.If(test, body, self._block(node.orelse) if node.orelse else [])

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        match node:
            case ast.Assign([ast.Name(name)], value) if self._stored[name] == 1:
                if self._is_read(value) or self._is_content(value):
                    self._aliases[name] = value
                    return None
                if self._is_forward(value):
                    self._forwards.add(name)
                    return None
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        return ast.Return(ast.Constant(True)) if self._forwards_it(node.value) else self._deep(node)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        return ast.Return(ast.Constant(True)) if self._forwards_it(node.value) else self._deep(node)

    def _deep(self, node: ast.stmt) -> ast.stmt:
        return self.generic_visit(node)  # type: ignore[return-value]

    def _forwards_it(self, node: ast.expr | None) -> bool:
        """Whether this forwards the event, as it came."""
        match node:
            case ast.Call(ast.Name(name), [ast.Name(event)], []) if name in self._forwards:
                return event == self._event
            case ast.Call(function, [ast.Name(event)], []) if self._is_forward(function):
                return event == self._event
            case ast.Call(
                ast.Attribute(ast.Name("FIFOFilter"), "enqueue"),
                [ast.Name(own), ast.Name(event)],
                [],
            ):
                return (own, event) == (self._own, self._event)
        return False

    def _is_forward(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and ast.unparse(node).startswith("super()")

    # -- expressions -----------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr):
            if self._is_read(node):
                return ast.Name(self._parameter(node), ast.Load())
            value = self._constant(node)
            if value is not MISSING:
                return self._written(node, value)
        return super().visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """A member of an enum is its name, which is equal rather than the same."""
        sides = [node.left, *node.comparators]
        if any(isinstance(self._constant(side), Enum) for side in sides):
            equal = {ast.Is: ast.Eq(), ast.IsNot: ast.NotEq()}
            node.ops = [equal.get(type(op), op) for op in node.ops]  # type: ignore[call-overload]
        return self.generic_visit(node)  # type: ignore[return-value]

    def _is_content(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(name) if name in self._aliases:
                return self._is_content(self._aliases[name])
            case ast.Name(name):
                return name == self._content
            case ast.Attribute(ast.Name(event), "content"):
                return event == self._event
        return False

    def _is_read(self, node: ast.expr) -> bool:
        """Whether this is a field, an item, or the like, of the content."""
        match node:
            case ast.Name(name) if name in self._aliases:
                return self._is_read(self._aliases[name])
            case ast.Attribute(owner, name) | ast.Call(
                ast.Name("getattr"), [owner, ast.Constant(str(name)), *_], []
            ):
                return self._is_part(owner) and self._are(owner, partial(_has_field, name))
            case ast.Subscript(owner, key):
                keys = [key]
            case ast.Call(ast.Attribute(owner, "get" | "deep_get"), keys, named):
                keys = [*keys, *(keyword.value for keyword in named)]
            case ast.Call(ast.Name("deep_get"), [owner, *keys], named):
                keys = [*keys, *(keyword.value for keyword in named)]
            case _:
                return False
        if not all(self._is_key(key) for key in keys):
            return False
        return self._is_part(owner) and self._are(owner, lambda value: isinstance(value, Mapping))

    def _is_key(self, node: ast.expr) -> bool:
        """Whether this is a constant, or an empty dict or the like that stands for one."""
        if self._constant(node) is not MISSING:
            return True
        try:
            ast.literal_eval(node)
        except ValueError:
            return False
        return True

    def _is_part(self, node: ast.expr) -> bool:
        return self._is_content(node) or self._is_read(node)

    def _are(self, node: ast.expr, test: Callable[[Any], bool]) -> bool:
        """Whether most values of a read are so; a dict may hold anything now and then."""
        read = self._reader(node)
        values = [v for v in map(read, self._contents) if v is not None and v is not MISSING]
        return bool(values) and sum(map(test, values)) > 0.6 * len(values)

    def _reader(self, node: ast.expr) -> Callable[[Any], Any]:
        """A read as a function of the content: MISSING where it raises."""
        name = self._event or self._content
        code = eval(f"lambda {name}: {self._spelled(node)}", self.names)

        def read(content: Any) -> Any:
            try:
                return code(SimpleNamespace(content=content) if self._event else content)
            except Exception:  # noqa: BLE001 - the filter would raise here as well, or not get here
                return MISSING

        return read

    def _parameter(self, node: ast.expr) -> str:
        text = self._spelled(node)
        if text not in self._parameters:
            words = re.findall(r"[A-Za-z]\w*", text)
            base = next(w for w in reversed(words) if w not in ("get", "deep_get", "default"))
            taken = self._taken | self.reads.keys()
            names = (f"{base}_{n}" if n else base for n in count())
            name = next(n for n in names if n not in taken and not keyword.iskeyword(n))
            self._parameters[text] = name
            self.reads[name] = self._reader(node)
        return self._parameters[text]

    def _spelled(self, node: ast.expr) -> str:
        return ast.unparse(_Spelled(self._aliases).visit(copy.deepcopy(node)))

    # -- constants -------------------------------------------------------------------------------

    def _constant(self, node: ast.expr) -> Any:
        """The value of a constant, or of a name or attribute that stands for something outside."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name, ast.Load()) if name not in self._stored:
                return self.names.get(name, MISSING)
            case ast.Attribute(ast.Name(own), name, ast.Load()) if own == self._own:
                return getattr(self._self, name, MISSING)
            case ast.Attribute(owner, name, ast.Load()):
                value = self._constant(owner)
                # Of other objects, an attribute may be anything; of plain values it is a method.
                return getattr(value, name, MISSING) if isinstance(value, type) else MISSING
        return MISSING

    def _written(self, node: ast.expr, value: Any) -> ast.expr:
        value = plain(value)
        if value is None or (type(value) in (bool, int, float, str) and value == value):
            return ast.Constant(value)
        if isinstance(node, ast.Name) and plain(self.names[node.id]) is self.names[node.id]:
            return node
        name = re.sub(r"\W", "_", f"_{ast.unparse(node)}")
        self.names[name] = value
        return ast.Name(name, ast.Load())


class _Spelled(ast.NodeTransformer):
    """Writes out aliases."""

    def __init__(self, aliases: Mapping[str, ast.expr]) -> None:
        self._aliases = aliases

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._aliases:
            return node
        spelled: ast.expr = self.visit(copy.deepcopy(self._aliases[node.id]))
        return spelled


def _function_of(case: Case) -> tuple[FunctionType, dict[str, Any]]:
    """The function behind a case, and the arguments that are bound already."""
    target, args, keywords = case.target, (), {}
    if isinstance(target, partial):
        target, args, keywords = target.func, target.args, target.keywords
    function = target.enqueue if isinstance(target, type) else target
    if not isinstance(function, FunctionType):
        raise NoForm("is no plain function")
    bound = inspect.signature(function, follow_wrapped=False).bind_partial(*args, **keywords)
    bound.apply_defaults()
    return function, {
        name: value
        for name, value in bound.arguments.items()
        if bound.signature.parameters[name].kind
        not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    }


def _has_field(name: str, value: Any) -> bool:
    if isinstance(value, Enum):
        return name in ("name", "value")
    return is_dataclass(value) and any(field.name == name for field in fields(value))
