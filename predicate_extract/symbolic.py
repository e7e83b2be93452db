"""From a filter's code to the condition under which it does anything.

The code is followed along every path, with each local name standing for the event, its content, a
field, a constant or a condition. A path ends in *forwards*, *does nothing*, or *kept*: the first
thing on a path that is not understood for certain (a call, a change, a loop, a raise) ends it as
kept, so that its events arrive at the filter whatever it does from there. The result is the choice
between the paths, in Python's order of evaluation.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING

from predicate_extract.algebra import choice, conjunction
from predicate_extract.constants import Const
from predicate_extract.describe import describe, describe_target
from predicate_extract.expressions import Env, Expressions, Routine, Symbol, Value
from predicate_extract.instance import FilterInstance
from predicate_extract.predicate import FALSE, TRUE, Field, Predicate
from predicate_extract.report import Reason, Weaken
from predicate_extract.scope import freeze
from predicate_extract.source import Source, trusted_source

if TYPE_CHECKING:
    import pyarrow as pa

MAX_STEPS = 2_000
MAX_CONDITIONS = 400

_COROUTINE_OR_GENERATOR = 0x20 | 0x80 | 0x200


@dataclass(frozen=True, slots=True)
class State:
    """A point on a path: what is still to run, the names, and whether the event was forwarded."""

    rest: tuple[ast.stmt, ...]
    env: Env
    routine: Routine
    caller: State | None
    forwarded: bool


class Analysis:
    """One run over one filter; collects the reasons why the result is not exact."""

    def __init__(self, instance: FilterInstance | None, schema: pa.Schema | None) -> None:
        self.reasons: dict[Reason, None] = {}
        self._instance = instance
        self._schema = schema
        self._steps = 0
        self._conditions = 0
        self._done: dict[State, Predicate] = {}

    # -- entry ---------------------------------------------------------------------------------

    def of_predicate(self, function: FunctionType, source: Source) -> Predicate:
        """The condition under which a function of the content returns something true."""
        routine = Routine(function, source, None)
        a = source.node.args
        names = [argument.arg for argument in (*a.posonlyargs, *a.args)]
        defaults = function.__defaults__ or ()
        if _irregular(function) or a.vararg or a.kwarg or a.kwonlyargs or not names:
            raise Weaken("signature", "this is not a plain function of one content")
        if len(names) - len(defaults) > 1:
            raise Weaken("signature", "the function needs more than the content")
        env: dict[str, Value] = {names[0]: Field(())}
        for name, default in zip(reversed(names[1:]), reversed(defaults), strict=False):
            frozen = freeze(default)
            if isinstance(frozen, Const) or (frozen and isinstance(default, tuple | frozenset)):
                env[name] = frozen
        return self._run(State(routine.body, _pack(env), routine, None, False))

    def of_filter(self) -> Predicate:
        """The condition under which the filter's `enqueue` does anything."""
        assert self._instance is not None
        return self._enter(self._instance.cls.__mro__, None)

    def _enter(self, classes: tuple[type, ...], caller: State | None) -> Predicate:
        """Run the first `enqueue` of these classes, then `caller`."""
        assert self._instance is not None
        owner = next((cls for cls in classes if "enqueue" in vars(cls)), None)
        if owner is None:
            raise Weaken(
                "no-base", "super() leads to no enqueue", "derive the class from FIFOFilter"
            )
        if owner is self._instance.base:
            if caller is None:
                return TRUE
            if caller.forwarded:
                raise Weaken("forwards-twice", "the event is forwarded more than once")
            return self._run(replace(caller, forwarded=True))
        function = vars(owner)["enqueue"]
        if not isinstance(function, FunctionType) or _irregular(function):
            raise Weaken("signature", f"{owner.__name__}.enqueue is not a plain method")
        source = trusted_source(function)
        a = source.node.args
        names = [argument.arg for argument in (*a.posonlyargs, *a.args)]
        if len(names) != 2 or a.vararg or a.kwarg or a.kwonlyargs:
            raise Weaken("signature", "enqueue takes other arguments than self and event")
        env: dict[str, Value] = {names[0]: Symbol.SELF, names[1]: Symbol.EVENT}
        routine = Routine(function, source, _super_owner(function))
        forwarded = caller is not None and caller.forwarded
        return self._run(State(routine.body, _pack(env), routine, caller, forwarded))

    # -- statements ----------------------------------------------------------------------------

    def _run(self, state: State) -> Predicate:
        """What happens from this point on."""
        if not state.rest:
            if state.caller is not None:
                return self._run(replace(state.caller, forwarded=state.forwarded))
            return TRUE if state.forwarded else FALSE
        if state in self._done:
            return self._done[state]
        statement = state.rest[0]
        after = replace(state, rest=state.rest[1:])
        self._steps += 1
        try:
            if self._steps > MAX_STEPS or self._conditions > MAX_CONDITIONS:
                raise Weaken("too-many-paths", "there are too many paths to follow from here")
            result = self._statement(statement, after)
        except Weaken as weaken:
            result = self._keep(weaken, statement, state.routine)
        self._done[state] = result
        return result

    def _statement(self, statement: ast.stmt, after: State) -> Predicate:
        match statement:
            case ast.Pass():
                return self._run(after)
            case ast.Expr(value):
                return self._expression(value, after)
            case ast.If(test, body, orelse):
                return self._decide(
                    test,
                    after,
                    lambda: self._run(replace(after, rest=(*body, *after.rest))),
                    lambda: self._run(replace(after, rest=(*orelse, *after.rest))),
                )
            case ast.Assign(targets, value):
                return self._assign(targets, value, after)
            case ast.AnnAssign(ast.Name() as target, _, ast.expr() as value):
                return self._assign([target], value, after)
            case ast.Return(value):
                return self._return(value, after)
            case ast.Assert(test, _):
                failed = Weaken("raises", "a failed assertion has to be reported")
                return self._decide(
                    test,
                    after,
                    lambda: self._run(after),
                    lambda: self._keep(failed, statement, after.routine),
                )
            case ast.Raise():
                raise Weaken("raises", "the exception has to be reported")
        raise Weaken(*describe(statement))

    def _expression(self, value: ast.expr, after: State) -> Predicate:
        if isinstance(value, ast.Constant):
            return self._run(after)
        if isinstance(value, ast.Call) and self._is_super_enqueue(value, after):
            return self._forward(value, after)
        return conjunction(*self._at(after).checks(self._at(after).value(value)), self._run(after))

    def _assign(self, targets: list[ast.expr], value: ast.expr, after: State) -> Predicate:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        for target in targets:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                if len(target.elts) != len(value.elts):
                    raise Weaken("assignment", "this unpacking fails")
                pairs += zip(target.elts, value.elts, strict=True)
            else:
                pairs.append((target, value))
        code = after.routine.function.__code__
        env = dict(after.env)
        checks: list[Predicate] = []
        for name, expression in pairs:
            if not isinstance(name, ast.Name):
                raise Weaken(*describe_target(name))
            # A nested function could change a local name too, but making one ends the path.
            if name.id not in (*code.co_varnames, *code.co_cellvars):
                raise Weaken("assignment", f"{name.id} is seen outside this function")
            result = self._at(after).value(expression)
            checks += self._at(after).checks(result)
            env[name.id] = result
        return conjunction(*checks, self._run(replace(after, env=_pack(env))))

    def _return(self, value: ast.expr | None, after: State) -> Predicate:
        end = replace(after, rest=())
        if value is None or isinstance(value, ast.Constant):
            is_true = isinstance(value, ast.Constant) and bool(value.value)
            return TRUE if is_true and self._instance is None else self._run(end)
        if self._instance is not None:
            return self._expression(value, end)
        return self._decide(value, after, lambda: TRUE, lambda: FALSE)

    def _forward(self, call: ast.Call, after: State) -> Predicate:
        assert self._instance is not None
        if call.keywords or len(call.args) != 1:
            raise Weaken("forwards", "enqueue is called with other arguments than the event")
        if self._at(after).value(call.args[0]) is not Symbol.EVENT:
            raise Weaken("transforms", "what is forwarded is not the event itself")
        owner, line = after.routine.owner, self._instance.cls.__mro__
        if owner not in line:
            raise Weaken("no-base", "super() does not lead to a parent of the filter")
        return self._enter(line[line.index(owner) + 1 :], after)

    def _keep(self, weaken: Weaken, node: ast.AST, routine: Routine) -> Predicate:
        node = weaken.node or node
        line = getattr(node, "lineno", routine.source.first_line)
        code = routine.source.snippet(node)
        self.reasons[Reason(line, code, weaken.kind, weaken.message, weaken.hint)] = None
        return TRUE

    # -- conditions ----------------------------------------------------------------------------

    def _decide(
        self,
        test: ast.expr,
        state: State,
        then: Callable[[], Predicate],
        otherwise: Callable[[], Predicate],
    ) -> Predicate:
        """`then` where the test is true, else `otherwise`; kept from where it is not understood."""
        then, otherwise = cache(then), cache(otherwise)
        try:
            condition = self._at(state).condition(test)
        except Weaken as weaken:
            match test:
                case ast.BoolOp(op, [first, *others]):
                    tail = others[0] if len(others) == 1 else ast.BoolOp(op, others)
                    ast.copy_location(tail, others[0])

                    def more() -> Predicate:
                        return self._decide(tail, state, then, otherwise)

                    if isinstance(op, ast.And):
                        return self._decide(first, state, more, otherwise)
                    return self._decide(first, state, then, more)
                case ast.UnaryOp(ast.Not(), operand):
                    return self._decide(operand, state, otherwise, then)
            return self._keep(weaken, test, state.routine)
        self._conditions += 1
        if condition == TRUE:
            return then()
        if condition == FALSE:
            return otherwise()
        return choice(condition, then(), otherwise())

    def _at(self, state: State) -> Expressions:
        return Expressions(state.routine, state.env, self._instance, self._schema)

    def _is_super_enqueue(self, call: ast.Call, state: State) -> bool:
        match call.func:
            case ast.Attribute(ast.Call(ast.Name(id="super"), [], []), "enqueue"):
                code = state.routine.function.__code__
                local = (*code.co_varnames, *code.co_cellvars)
                if self._instance is None or "super" in local:
                    return False
                return "super" not in state.routine.function.__globals__
        return False


def _pack(env: dict[str, Value]) -> Env:
    return tuple(sorted(env.items(), key=lambda item: item[0]))


def _irregular(function: FunctionType) -> bool:
    return bool(function.__code__.co_flags & _COROUTINE_OR_GENERATOR)


def _super_owner(function: FunctionType) -> type | None:
    """The class that `super()` in this function starts from."""
    free = function.__code__.co_freevars
    if "__class__" not in free:
        return None
    owner = (function.__closure__ or ())[free.index("__class__")].cell_contents
    return owner if isinstance(owner, type) else None
