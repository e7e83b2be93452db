"""Following expressions: what each stands for at one point of a path, and what it decides there.

An expression gives a tree whose leaves say its value and the state after it. Whatever is not
understood for certain ends in `Stop`: from there on the event is kept.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Sequence

from predicate_extract.algebra.predicate import FALSE, Predicate
from predicate_extract.algebra.simplify import conjunction, disjunction
from predicate_extract.algebra.terms import Const, Field
from predicate_extract.analysis.code import Code
from predicate_extract.analysis.comprehensions import Comprehensions
from predicate_extract.analysis.describe import describe
from predicate_extract.analysis.following import Frame, Got, GotAll, State, collapsed
from predicate_extract.analysis.operations import (
    BEFORE,
    BINARY,
    apply,
    arithmetic,
    collection,
    compare,
    truth,
)
from predicate_extract.analysis.scope import is_bound_once, outer_value
from predicate_extract.analysis.source import Source
from predicate_extract.analysis.tree import Leaf, Tree, bind, branch, remember
from predicate_extract.analysis.unpacking import iterated
from predicate_extract.analysis.values import (
    ITERATOR,
    Display,
    Function,
    Unknown,
    Value,
    key_of,
)
from predicate_extract.report import Weaken


class Expressions(Comprehensions):
    """Follows expressions; calls, and the attributes of the filter itself, are the subclass's."""

    @abstractmethod
    def call(self, node: ast.Call, frame: Frame, state: State) -> Tree[Got]:
        """Follow a call."""

    @abstractmethod
    def attribute(
        self, owner: Value, name: str, node: ast.AST, frame: Frame, state: State
    ) -> Tree[Got]:
        """Follow `owner.name`."""

    # -- values --------------------------------------------------------------------------------

    def value(self, node: ast.expr, frame: Frame, state: State) -> Tree[Got]:
        """What an expression stands for."""
        try:
            self.step()
            hazard = self._hazards and self._hazards(frame.code.source.file, node)
            if hazard:
                raise hazard
            return self._value(node, frame, state)
        except Weaken as weaken:
            return self.stop(weaken, node, frame)

    def values(self, nodes: Sequence[ast.expr], frame: Frame, state: State) -> Tree[GotAll]:
        """What several expressions stand for, from left to right; `*parts` are taken apart."""
        if not nodes:
            return Leaf(GotAll((), state))
        first, *others = nodes
        starred = isinstance(first, ast.Starred)

        def go(got: Got) -> Tree[GotAll]:
            if not starred:
                found: tuple[Value, ...] = (got.value,)
            else:
                try:
                    found = iterated(got.value)
                except Weaken as weaken:
                    return self.stop(weaken, first, frame)
            rest = self.values(others, frame, got.state)
            return bind(rest, lambda more: Leaf(GotAll((*found, *more.values), more.state)))

        return bind(self.value(first.value if starred else first, frame, state), go)  # type: ignore

    def _value(self, node: ast.expr, frame: Frame, state: State) -> Tree[Got]:
        match node:
            case ast.Constant(constant):
                return self._constant(constant, state)
            case ast.Name(id=name):
                return Leaf(Got(self._name(name, frame, state), state))
            case ast.Attribute(owner, name):
                refuse_private(name)

                def read(got: Got) -> Tree[Got]:
                    try:
                        return self.attribute(got.value, name, node, frame, got.state)
                    except Weaken as weaken:
                        return self.stop(weaken, node, frame)

                return bind(self.value(owner, frame, state), read)
            case ast.Call():
                return self.call(node, frame, state)
            case ast.BoolOp(op, values):
                return self._bool_op(op, values, frame, state)
            case ast.UnaryOp(ast.Not(), operand):
                tree = self.decide(
                    operand,
                    frame,
                    state,
                    lambda after: Leaf(Got(Const(False), after)),
                    lambda after: Leaf(Got(Const(True), after)),
                )
                return collapsed(tree)
            case ast.UnaryOp(ast.USub() | ast.UAdd() as sign, operand):
                return self._mapped([operand], node, frame, state, lambda v: _signed(sign, v[0]))
            case ast.BinOp(left, op, right) if type(op) in BINARY:
                name = BINARY[type(op)]
                return self._mapped(
                    [left, right], node, frame, state, lambda v: arithmetic(name, *v)
                )
            case ast.Compare(left, ops, comparators):
                return self._compare(left, ops, comparators, node, frame, state)
            case ast.IfExp(test, yes, no):
                tree = self.decide(
                    test,
                    frame,
                    state,
                    lambda after: self.value(yes, frame, after),
                    lambda after: self.value(no, frame, after),
                )
                return collapsed(tree)
            case ast.NamedExpr(ast.Name(id=name), inner):
                if not frame.code.is_local(name):
                    raise Weaken("assignment", f"{name} is seen outside this function")
                return bind(
                    self.value(inner, frame, state),
                    lambda got: self.checked(
                        got.value, Leaf(Got(got.value, got.state.set(name, got.value)))
                    ),
                )
            case ast.Tuple(items) | ast.List(items) | ast.Set(items):
                kind = type(node).__name__.lower()
                return self._display(kind, items, frame, state)
            case ast.Dict(keys, values) if all(key is not None for key in keys):
                pairs = [part for pair in zip(keys, values, strict=True) for part in pair]
                return self._display("dict", pairs, frame, state)  # type: ignore[arg-type]
            case ast.Subscript(owner, ast.Slice(lower, upper, None)):
                ends = [
                    end or ast.copy_location(ast.Constant(None), node) for end in (lower, upper)
                ]
                return self._mapped([owner, *ends], node, frame, state, lambda v: _sliced(*v))
            case ast.Subscript(owner, ast.expr() as key) if not isinstance(key, ast.Slice):
                return self._mapped([owner, key], node, frame, state, lambda v: self._item(*v))
            case ast.JoinedStr(parts):
                return self._mapped(
                    [_formatted(part) for part in parts],
                    node,
                    frame,
                    state,
                    lambda v: apply("concat", *v) if v else Const(""),
                )
            case ast.FormattedValue(inner, _, spec):
                spec_text = spec.values[0] if isinstance(spec, ast.JoinedStr) else None
                match spec_text:
                    case None:
                        return self.value(inner, frame, state)
                    case ast.Constant(str() as text):
                        return self._mapped(
                            [inner],
                            node,
                            frame,
                            state,
                            lambda v: apply("format", v[0], Const(text)),
                        )
            case ast.Lambda():
                return Leaf(Got(self.inner_function(node, frame, state), state))
            case ast.ListComp(element, generators) | ast.SetComp(element, generators):
                kind = "list" if isinstance(node, ast.ListComp) else "set"
                return self.collected(kind, element, generators, frame, state)
            case ast.GeneratorExp(element, generators):
                return self.collected(ITERATOR, element, generators, frame, state)
        raise Weaken(*describe(node))

    def _mapped(
        self,
        nodes: Sequence[ast.expr],
        node: ast.AST,
        frame: Frame,
        state: State,
        make: Callable[[tuple[Value, ...]], Value],
    ) -> Tree[Got]:
        """What `make` makes of the values of some expressions."""

        def go(got: GotAll) -> Tree[Got]:
            return collapsed(
                self.chosen(
                    got.values, node, frame, lambda values: Leaf(Got(make(values), got.state))
                )
            )

        return bind(self.values(nodes, frame, state), go)

    # -- kinds of expressions ------------------------------------------------------------------

    def _constant(self, constant: object, state: State) -> Tree[Got]:
        if constant is Ellipsis or isinstance(constant, complex):
            raise Weaken("unsupported", f"{constant!r} is not analysed")
        return Leaf(Got(Const(constant), state))  # type: ignore[arg-type]

    def _name(self, name: str, frame: Frame, state: State) -> Value:
        value = state.get(name)
        if value is not None:
            return value
        for known, outer in frame.names:
            if known == name:
                return outer
        refuse_private(name)
        if frame.code.is_local(name):
            raise Weaken("unknown-name", f"{name} has no known value here")
        return outer_value(name, frame.code)

    def _display(
        self, kind: str, items: Sequence[ast.expr], frame: Frame, state: State
    ) -> Tree[Got]:
        def go(got: GotAll) -> Tree[Got]:
            try:
                made = collection(kind, got.values)
            except Weaken as weaken:
                return self.stop(weaken, items[0], frame)
            return self.checked(made, Leaf(Got(made, got.state)))

        for item in items:
            if isinstance(item, ast.GeneratorExp):
                raise Weaken(*describe(item))
        return bind(self.values(items, frame, state), go)

    def _bool_op(
        self, op: ast.boolop, nodes: Sequence[ast.expr], frame: Frame, state: State
    ) -> Tree[Got]:
        first, *others = nodes
        tree = self.value(first, frame, state)
        if not others:
            return tree
        both = isinstance(op, ast.And)

        @remember
        def rest(after: State) -> Tree[Got]:
            return self._bool_op(op, others, frame, after)

        def go(got: Got) -> Tree[Got]:
            return collapsed(
                self.chosen((got.value,), first, frame, lambda v: decided(Got(v[0], got.state)))
            )

        def decided(got: Got) -> Tree[Got]:
            value = got.value
            if isinstance(value, Const) and not isinstance(value.value, bool):
                return rest(got.state) if bool(value.value) == both else Leaf(got)
            later = rest(got.state)
            match value, later:
                case (
                    Predicate() | Const(bool()),
                    Leaf(Got(Predicate() | Const(bool()) as second, after)),
                ) if after == got.state:
                    join = conjunction if both else disjunction
                    return Leaf(Got(join(truth(value, False), truth(second, False)), after))
            settled = Const(not both) if isinstance(value, Predicate) else value
            end: Tree[Got] = Leaf(Got(settled, got.state))
            yes, no = (later, end) if both else (end, later)
            typed = self.content.typed
            return self.when(lambda: truth(value, typed), first, frame, lambda: yes, lambda: no)

        return bind(tree, go)

    def _compare(
        self,
        left: ast.expr,
        ops: Sequence[ast.cmpop],
        comparators: Sequence[ast.expr],
        node: ast.expr,
        frame: Frame,
        state: State,
    ) -> Tree[Got]:
        def go(got: GotAll) -> Tree[Got]:
            return self._compared(got.values, ops, comparators[1:], node, frame, got.state)

        return bind(self.values([left, comparators[0]], frame, state), go)

    def _compared(
        self,
        pair: tuple[Value, ...],
        ops: Sequence[ast.cmpop],
        later: Sequence[ast.expr],
        node: ast.expr,
        frame: Frame,
        state: State,
    ) -> Tree[Got]:
        """A chain from its second operand on, which is evaluated once."""
        return collapsed(
            self.chosen(
                pair,
                node,
                frame,
                lambda known: self._compared_plainly(known, ops, later, node, frame, state),
            )
        )

    def _compared_plainly(
        self,
        pair: tuple[Value, ...],
        ops: Sequence[ast.cmpop],
        later: Sequence[ast.expr],
        node: ast.expr,
        frame: Frame,
        state: State,
    ) -> Tree[Got]:
        typed, (one, two) = self.content.typed, pair
        try:
            test = self.settled(lambda: compare(ops[0], one, two, typed), node, frame)
        except Weaken as weaken:
            return self.stop(weaken, node, frame)
        if not later:
            return Leaf(Got(test, state))

        def go(got: Got) -> Tree[Got]:
            return self._compared((two, got.value), ops[1:], later[1:], node, frame, got.state)

        rest = bind(self.value(later[0], frame, state), go)
        match rest:
            case Leaf(Got(Predicate() as more, after)) if after == state:
                return Leaf(Got(conjunction(test, more), state))
        return branch(test, rest, Leaf(Got(FALSE, state)))

    def _item(self, owner: Value, key: Value) -> Value:
        match owner, key:
            case Field(), Const(str() | int() as constant) if not isinstance(constant, bool):
                self.content.check_item(owner)
                return owner.step(constant, keyed=True)
            case Display("dict"), _ if owner.settled and key_of(key) is not None:
                for known, value in zip(owner.keys, owner.items[1::2], strict=True):
                    if key_of(known) == key_of(key):
                        return value
                raise Weaken("raises", f"there is no key {key}")
            case Display("tuple" | "list", items), Const(int() as index):
                if -len(items) <= index < len(items):
                    return items[index]
                raise Weaken("raises", f"there is no item {index}")
            case Unknown(what=what), _:
                raise Weaken("state", f"this looks into {what}", BEFORE)
        return apply("item", owner, key)

    def inner_function(
        self, node: ast.Lambda | ast.FunctionDef, frame: Frame, state: State
    ) -> Function:
        """A function made here.

        Raises: Weaken, if a name that it takes from around it may be bound anew before it runs.
        """
        file = frame.code.source.file
        used = {each.id for each in file.nodes.walk(node) if isinstance(each, ast.Name)}
        for name, _ in state.env:
            if name in used and not is_bound_once(name, frame.code.source.node, file):
                raise Weaken(
                    "rebound-name", f"{name} may have another value when this function is called"
                )
        code = Code(Source(file, node), frame.code.function, inner=True)
        return Function(code, names=(*state.env, *frame.names))


def refuse_private(name: str) -> None:
    if name.startswith("__"):
        raise Weaken("private-name", f"{name} is a private or special name")


def _sliced(owner: Value, lower: Value, upper: Value) -> Value:
    match owner, lower, upper:
        case Display("tuple" | "list" as kind, items), Const(None | int() as low), Const(
            None | int() as high
        ):
            return Display(kind, items[low:high])
    return apply("slice", owner, lower, upper)


def _signed(sign: ast.unaryop, value: Value) -> Value:
    if isinstance(value, Unknown) and value.family in ("integer", "float"):
        return value
    if isinstance(sign, ast.USub):
        return apply("neg", value)
    if isinstance(value, Const) and type(value.value) in (int, float):
        return value
    raise Weaken("unsupported", "a sign of plus is not analysed")


def _formatted(part: ast.expr) -> ast.expr:
    if isinstance(part, ast.FormattedValue) and part.conversion not in (-1, 115):
        raise Weaken("unsupported", "a representation in an f-string is not analysed")
    return part
