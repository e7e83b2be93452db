"""Following calls: built-ins and methods of the algebra's table, and functions, inlined.

What a call does must be certain. The functions listed here are free of effects; a function written
in Python is followed statement by statement; any other call ends in `Stop`.
"""

from __future__ import annotations

import ast
import functools
import re
import typing
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

from predicate_extract.algebra.terms import Const, Field, Term
from predicate_extract.analysis.arguments import bound_arguments, keyword_arguments
from predicate_extract.analysis.builtin_calls import BELOW, BuiltinCalls
from predicate_extract.analysis.choices import choice_in
from predicate_extract.analysis.code import code_of
from predicate_extract.analysis.describe import describe
from predicate_extract.analysis.expressions import refuse_private
from predicate_extract.analysis.following import Frame, Got, GotAll, State, collapsed
from predicate_extract.analysis.instance import forwards
from predicate_extract.analysis.operations import hashed
from predicate_extract.analysis.scope import wrap
from predicate_extract.analysis.tree import Leaf, Tree, bind, check
from predicate_extract.analysis.values import (
    UNHEEDED,
    Choice,
    Display,
    Forward,
    Function,
    Known,
    Method,
    Super,
    Symbol,
    Unknown,
    Value,
)
from predicate_extract.report import Weaken

MAX_DEPTH = 12

# By identity: `functools.wraps` gives a function another's name, module and attributes.
_MATCHING = {re.search: "search", re.match: "match", re.fullmatch: "fullmatch"}
_TRANSPARENT = (typing.cast, typing.assert_type)


class Calls(BuiltinCalls):
    """Follows calls; the statements of a function are the subclass's."""

    @abstractmethod
    def body(self, frame: Frame, state: State) -> Tree[Got]:
        """Follow a function's statements; the leaves say what it returns."""

    @abstractmethod
    def forward(self, args: tuple[Value, ...], state: State) -> Tree[Got]:
        """Follow a call of the base class's `enqueue`."""

    @abstractmethod
    def next_enqueue(self, owner: type) -> Value:
        """What `super().enqueue` in a method of `owner` is."""

    def call(self, node: ast.Call, frame: Frame, state: State) -> Tree[Got]:
        if (lazy := self._lazy_call(node, frame, state)) is not None:
            return lazy
        if (parent := self._super(node, frame, state)) is not None:
            return Leaf(Got(parent, state))
        names = [keyword.arg for keyword in node.keywords]
        given = [*node.args, *(keyword.value for keyword in node.keywords)]

        def go(got: GotAll) -> Tree[Got]:
            callee, *values = got.values
            count = len(values) - len(names)
            try:
                keywords = keyword_arguments(names, values[count:])
                return self.invoke(callee, tuple(values[:count]), keywords, node, frame, got.state)
            except Weaken as weaken:
                return self.unknown_call(weaken, node, frame, got.state)

        if isinstance(node.func, ast.Attribute):
            refuse_private(node.func.attr)

            def method(got: Got) -> Tree[Got]:
                try:
                    return self._method(got, node.func.attr, node, frame)  # type: ignore
                except Weaken as weaken:
                    return self.stop(weaken, node, frame)

            callee = bind(self.value(node.func.value, frame, state), method)
        else:
            callee = self.value(node.func, frame, state)

        def arguments(got: Got) -> Tree[Got]:
            rest = self.values(given, frame, got.state)
            return bind(rest, lambda more: go(GotAll((got.value, *more.values), more.state)))

        return bind(callee, arguments)

    def unknown_call(self, weaken: Weaken, node: ast.AST, frame: Frame, state: State) -> Tree[Got]:
        """A call that is not understood: it may do anything, unless effects are to be ignored."""
        if self._ignore_effects and weaken.kind in ("call", "unsupported", "no-source"):
            self.notes.reasons[self.reason(weaken, node, frame)] = None
            return Leaf(Got(Unknown(UNHEEDED, "what a call gives"), state))
        return self.stop(weaken, node, frame)

    # -- any, all, isinstance: what looks at its arguments in its own way ----------------------

    def _lazy_call(self, node: ast.Call, frame: Frame, state: State) -> Tree[Got] | None:
        """`any` and `all` of a generator, which stop early."""
        match node:
            case ast.Call(ast.Name(id="any" | "all" as name), [ast.GeneratorExp() as all_of], []):
                if self._name(name, frame, state) != Known(any if name == "any" else all):
                    return None
            case _:
                return None
        wanted = name == "any"

        def visit(at: State, more: Callable[[State], Tree[Got]]) -> Tree[Got]:
            def found(after: State) -> Tree[Got]:
                return Leaf(Got(Const(wanted), after))

            yes, no = (found, more) if wanted else (more, found)
            return self.decide(all_of.elt, frame, at, yes, no)

        def done(at: State) -> Tree[Got]:
            return Leaf(Got(Const(not wanted), at))

        return collapsed(self.each(all_of.generators, frame, state, visit, done, state))

    def _super(self, node: ast.Call, frame: Frame, state: State) -> Super | None:
        """What `super()`, or `super(Class, self)`, is."""
        match node:
            case ast.Call(ast.Name(id="super"), args, []) if len(args) in (0, 2):
                if self._name("super", frame, state) != Known(super):
                    return None
                owner = frame.code.owner
                if args:
                    match self.values(args, frame, state):
                        case Leaf(GotAll((Known(type() as cls), Symbol.SELF))):
                            owner = cls
                        case _:
                            return None
                if owner is not None:
                    return Super(owner)
        return None

    # -- dispatch ------------------------------------------------------------------------------

    def invoke(
        self,
        callee: Value,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        node: ast.Call,
        frame: Frame,
        state: State,
    ) -> Tree[Got]:
        """Call a value.

        Raises: Weaken, if it is not known what that does.
        """
        match callee:
            case Function():
                bound = dict(callee.keywords) | keywords
                return self.inline(callee, (*callee.bound, *args), bound, node, frame, state)
            case Forward() if not keywords:
                return self.forward(args, state)
            case Method(of, name):
                return self._by_value(
                    (of, *args),
                    keywords,
                    node,
                    frame,
                    state,
                    lambda values, named: self.method_of(values[0], name, values[1:], named, state),
                )
            case Known(it):
                return self._known(it, args, keywords, node, frame, state)
        raise Weaken(*describe(node))

    def _known(
        self,
        it: Any,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        node: ast.Call,
        frame: Frame,
        state: State,
    ) -> Tree[Got]:
        if isinstance(it, FunctionType):
            if forwards(it) and args[:1] == (Symbol.SELF,):
                return self.forward(args[1:], state)
            if it in _MATCHING:
                how = _MATCHING[it]
                return self._by_value(
                    args,
                    keywords,
                    node,
                    frame,
                    state,
                    lambda values, named: self.matching(how, values, named, state),
                )
            if it in _TRANSPARENT and args:
                return Leaf(Got(args[-1], state))
            return self.inline(Function(code_of(it)), args, keywords, node, frame, state)
        if isinstance(it, functools.partial):
            bound = tuple(wrap(arg) for arg in it.args)
            more = {name: wrap(value) for name, value in it.keywords.items()} | keywords
            return self.invoke(wrap(it.func), (*bound, *args), more, node, frame, state)
        if isinstance(it, functools._lru_cache_wrapper):
            # It looks its arguments up first, so they must have a hash.
            inner = Function(code_of(it.__wrapped__))  # type: ignore[arg-type]
            tree = self.inline(inner, args, keywords, node, frame, state)
            for arg in reversed((*args, *keywords.values())):
                tree = check(hashed(arg), tree)
            return tree
        if it is isinstance and len(args) == 2 and not keywords:
            return Leaf(Got(self.is_instance(*args), state))

        def call(values: tuple[Value, ...], named: dict[str, Value]) -> Tree[Got]:
            value = self.builtin(it, values, named)
            if value is None:
                raise Weaken(*describe(node))
            end: Tree[Got] = Leaf(Got(value, state))
            makes = isinstance(value, Display) and value.hashed
            return self.checked(value, end) if makes else end

        return self._by_value(args, keywords, node, frame, state, call)

    def _by_value(
        self,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        node: ast.Call,
        frame: Frame,
        state: State,
        call: Callable[[tuple[Value, ...], dict[str, Value]], Tree[Got]],
    ) -> Tree[Got]:
        """A call of what looks at its arguments: once for each value, where they are few."""
        given = (*args, *keywords.values())
        if choice_in(given) is None:
            return call(args, keywords)

        def known(values: tuple[Value, ...]) -> Tree[Got]:
            named = dict(zip(keywords, values[len(args) :], strict=True))
            try:
                return call(values[: len(args)], named)
            except Weaken as weaken:
                return self.unknown_call(weaken, node, frame, state)

        return collapsed(self.chosen(given, node, frame, known))

    # -- methods -------------------------------------------------------------------------------

    def _method(self, got: Got, name: str, node: ast.Call, frame: Frame) -> Tree[Got]:
        """The callable that `value.name` is."""
        of = got.value
        match of:
            case Field():
                method = self.content.method(of, name)
                if method is not None:
                    return Leaf(Got(method, got.state))
                return Leaf(Got(Method(of, name), got.state))
            case Term() | Display() | Unknown() | Choice():
                return Leaf(Got(Method(of, name), got.state))
            case Known(re.Pattern()):
                return Leaf(Got(Method(of, name), got.state))
            case Known(it) if not isinstance(it, type | ModuleType):
                raise Weaken(
                    "call", f"what {name} of a {type(it).__name__} does is not known", BELOW
                )
            case Symbol.EVENT:
                raise Weaken("transforms", f"event.{name}() makes another event", BELOW)
        return self.attribute(of, name, node, frame, got.state)

    # -- inlining ------------------------------------------------------------------------------

    def inline(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: Mapping[str, Value],
        node: ast.AST,
        frame: Frame,
        state: State,
    ) -> Tree[Got]:
        """Follow a function's own code, which is called at `node`.

        Raises: Weaken, if the call does not fit it, or calls are nested too deeply.
        """
        self.step()
        if frame.depth >= MAX_DEPTH:
            raise Weaken("too-deep", "calls are nested too deeply here")
        env = bound_arguments(function.code, args, keywords)
        inner = Frame(function.code, function.names, frame.depth + 1, (node, frame))
        tree = self.body(inner, replace(state, env=env))
        for _, value in reversed(env):
            tree = self.checked(value, tree)

        def back(got: Got) -> Tree[Got]:
            after = replace(got.state, env=state.env)
            return self.checked(got.value, Leaf(Got(got.value, after)))

        return collapsed(bind(tree, back))
