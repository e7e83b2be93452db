"""From a filter, or a predicate function, to the condition under which it does anything."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType

from predicate_extract.algebra.functions import METHODS
from predicate_extract.algebra.predicate import Predicate
from predicate_extract.algebra.terms import Call, Const, Field
from predicate_extract.analysis.arguments import bound_arguments, default_values
from predicate_extract.analysis.code import Code, code_of
from predicate_extract.analysis.content import Content, of_choice
from predicate_extract.analysis.describe import describe_target
from predicate_extract.analysis.following import Frame, Got, Hazards, State
from predicate_extract.analysis.instance import FilterInstance, forwards
from predicate_extract.analysis.members import member_of
from predicate_extract.analysis.operations import apply
from predicate_extract.analysis.scope import is_mutable, wrap
from predicate_extract.analysis.statements import Point, Statements
from predicate_extract.analysis.tree import Leaf, Tree, bind, predicate_of, settle
from predicate_extract.analysis.values import (
    Choice,
    Forward,
    Function,
    Known,
    Super,
    Symbol,
    Unknown,
    Value,
)
from predicate_extract.report import Reason, Weaken

_HEADER = {"seq": "integer", "time": "integer", "supplier": "str", "type": "str"}


@dataclass(frozen=True, slots=True)
class Found:
    """The condition, and why it is not exact; `catches`: what raises there may be caught."""

    predicate: Predicate
    reasons: tuple[Reason, ...]
    catches: bool = False


class Analysis(Statements):
    """One run over one filter, or one function of the content."""

    def __init__(
        self,
        content: Content,
        instance: FilterInstance | None = None,
        ignore_effects: bool = False,
        hazards: Hazards | None = None,
    ) -> None:
        super().__init__(content, ignore_effects, hazards)
        self._instance = instance
        if instance is not None:
            instance.evaluate = self._initial

    # -- entry ---------------------------------------------------------------------------------

    def of_function(
        self, code: Code, given: Sequence[object] = (), keywords: Mapping[str, object] = {}
    ) -> Found:
        """The condition under which a function of the content returns something true; `given` are
        arguments before it, and `keywords` after it.

        Raises: Weaken.
        """
        more = {name: _constant(value) for name, value in keywords.items()}
        frame, state = self._start(code, (*map(_constant, given), Field(())), more)

        def decide(point: Point) -> Tree[bool]:
            return self.by_truth(
                point.value, code.source.node, frame, lambda: Leaf(True), lambda: Leaf(False)
            )

        return self._found(bind(self.block(code.body, frame, state), decide), code)

    def of_filter(self) -> Found:
        """The condition under which the filter's `enqueue` does anything.

        Raises: Weaken.
        """
        assert self._instance is not None
        enqueue = self._enqueue_of(self._instance.cls.__mro__)
        if enqueue is None:
            return self._found(Leaf(True), None)
        frame, state = self._start(enqueue, (Symbol.SELF, Symbol.EVENT), {})
        tree = self.block(enqueue.body, frame, state)

        def end(at: Point) -> Tree[bool]:
            return self.checked(at.value, Leaf(at.state.forwarded))

        return self._found(bind(tree, end), enqueue)

    def _start(
        self, code: Code, args: tuple[Value, ...], keywords: Mapping[str, Value]
    ) -> tuple[Frame, State]:
        try:
            env = bound_arguments(code, args, keywords)
        except Weaken as weaken:
            raise Weaken(
                "signature", f"{code.name} is called with {len(args)} arguments"
            ) from weaken
        return Frame(code), State(env)

    def _found(self, tree: Tree[bool], code: Code | None) -> Found:
        line = code.source.first_line if code is not None else 0
        text = code.name if code is not None else ""
        predicate, reasons = predicate_of(tree, Reason(line, text, "too-large", _TOO_LARGE))
        return Found(settle(predicate), (*self.notes.reasons, *reasons), catches=self.notes.catches)

    # -- the filter ----------------------------------------------------------------------------

    def _enqueue_of(self, classes: tuple[type, ...]) -> Code | None:
        """The first `enqueue` of these classes; None if it is the base class's, which forwards.

        Raises: Weaken, if there is none that can be followed.
        """
        assert self._instance is not None
        owner = next((cls for cls in classes if "enqueue" in vars(cls)), None)
        if owner is None:
            raise Weaken(
                "no-base", "super() leads to no enqueue", "derive the class from FIFOFilter"
            )
        function = vars(owner)["enqueue"]
        if forwards(function):
            return None
        if not isinstance(function, FunctionType):
            raise Weaken("signature", f"{owner.__name__}.enqueue is not a plain method")
        return code_of(function)

    def _initial(self, node: ast.expr, code: Code) -> Value:
        """The value of an expression in `__init__`, as far as its default arguments tell."""
        env = tuple(sorted(default_values(code).items()))
        match self.value(node, Frame(code), State(env)):
            case Leaf(Got(value)):
                return value
        raise Weaken(
            "no-instance",
            f"what {code.name} is given is not known here",
            "name the class with its arguments, in Python",
        )

    def next_enqueue(self, owner: type) -> Value:
        if self._instance is None or owner not in self._instance.cls.__mro__:
            raise Weaken("no-base", "super() does not lead to a parent of the filter")
        line = self._instance.cls.__mro__
        code = self._enqueue_of(line[line.index(owner) + 1 :])
        if code is None:
            return Forward()
        return Function(code, (Symbol.SELF,))

    def _of_parent(self, owner: type, name: str) -> Value:
        """What `super().name` is, in a method of `owner`."""
        if name == "enqueue":
            return self.next_enqueue(owner)
        if self._instance is None or owner not in self._instance.cls.__mro__:
            raise Weaken("no-base", "super() does not lead to a parent of the filter")
        line = self._instance.cls.__mro__
        parents = line[line.index(owner) + 1 :]
        member = next((vars(cls)[name] for cls in parents if name in vars(cls)), None)
        if not isinstance(member, FunctionType):
            raise Weaken("call", f"what super().{name} is, is not known")
        return Function(code_of(member), (Symbol.SELF,))

    def forward(self, args: tuple[Value, ...], state: State) -> Tree[Got]:
        if len(args) != 1:
            raise Weaken("forwards", "enqueue is called with other arguments than the event")
        if args[0] is not Symbol.EVENT:
            raise Weaken("transforms", "what is forwarded is not the event itself")
        if state.forwarded:
            raise Weaken("forwards-twice", "the event is forwarded more than once")
        return Leaf(Got(Const(None), replace(state, forwarded=True)))

    def stores(self, target: ast.expr, frame: Frame, state: State) -> Weaken | None:
        match target:
            case ast.Attribute(ast.Name(id=name)) | ast.Subscript(
                ast.Attribute(ast.Name(id=name))
            ) if self._ignore_effects and state.get(name) is Symbol.SELF:
                return None
        return Weaken(*describe_target(target))

    # -- attributes ----------------------------------------------------------------------------

    def attribute(
        self, owner: Value, name: str, node: ast.AST, frame: Frame, state: State
    ) -> Tree[Got]:
        match owner:
            case Symbol.EVENT:
                value: Value = Field(()) if name == "content" else self._header(name)
                return Leaf(Got(value, state))
            case Symbol.SELF if self._instance is not None:
                return self._read(self._instance.attribute(name), Symbol.SELF, node, frame, state)
            case Super(cls):
                return Leaf(Got(self._of_parent(cls, name), state))
            case Field():
                return self._read(self.content.member(owner, name), owner, node, frame, state)
            case Choice():
                return Leaf(Got(of_choice(owner, name), state))
            case Known(it):
                return Leaf(Got(member_of(it, name, frame.code.source.file), state))
            case Call() | Const() if name in METHODS:
                return Leaf(Got(apply(name, owner), state))
        raise Weaken("unsupported", f"the attribute {name} is not one of the content")

    def _read(
        self, found: Value | Code, owner: Value, node: ast.AST, frame: Frame, state: State
    ) -> Tree[Got]:
        if isinstance(found, Code):  # a property
            return self.inline(Function(found), (owner,), {}, node, frame, state)
        return Leaf(Got(found, state))

    def _header(self, name: str) -> Value:
        if name not in _HEADER:
            raise Weaken("header", f"event.{name} is not part of the content")
        return Unknown(_HEADER[name], f"event.{name}, which is not part of the content")


def _constant(value: object) -> Value:
    if is_mutable(value):
        raise Weaken("mutable-collection", "an argument may change", "make it a tuple or frozenset")
    return wrap(value)


_TOO_LARGE = "the condition is too large, and was weakened"
