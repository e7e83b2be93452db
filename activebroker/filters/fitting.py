"""What can be known, before a filter is shipped, of one that cannot work."""

from __future__ import annotations

import dis
import functools
import inspect
import warnings
from collections.abc import Iterator
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from activebroker.core.errors import FilterWarning, InvalidFilter
from activebroker.filters.filter import FIFOFilter
from activebroker.filters.keyed import KeyedFilter
from predicate_extract import FALSE, Extraction

_METHODS: dict[str, tuple[str, ...]] = {
    "enqueue": ("event",),
    "on_start": (),
    "on_end": (),
    "on_idle": (),
    "snapshot": (),
    "restore": ("state",),
}
_KEYED = {"on_timer": ("time",), "on_late": ("event",), "on_expire": ()}


def check_class(
    cls: type[FIFOFilter], args: tuple[Any, ...], instance: FIFOFilter | None, found: Extraction
) -> None:
    """Raise InvalidFilter for a filter that cannot be made, or whose methods cannot run as they
    are called, or that surely does nothing; warn of one that seems to."""
    _check_attributes(cls)
    if instance is None:
        _check_constructor(cls, args)
    elif "_forwarded" not in vars(instance):
        raise InvalidFilter(
            f"This {cls.__qualname__} was made past FIFOFilter.__new__: let the __new__ of the "
            "class call super().__new__(cls)."
        )
    own = vars(instance) if instance is not None else {}
    methods = _METHODS | _KEYED if issubclass(cls, KeyedFilter) else _METHODS
    if methods is not _METHODS and callable(cls.key):  # type: ignore[attr-defined]
        methods = methods | {"key": ("content",)}
    for name, takes in methods.items():
        if name in own:
            _check_call(f"the {name} of this {cls.__qualname__}", own[name], takes)
        else:
            _check_method(cls, name, takes)
    if not own.keys() & _METHODS.keys():
        _check_forwards(cls, found)


def check_function(name: str, function: Any) -> None:
    """Raise InvalidFilter for what cannot be called with the content for an answer."""
    _check_call(name, function, ("content",))
    if isinstance(function, FunctionType) and set(_returns(function.__code__)) == {False}:
        raise InvalidFilter(
            f"{name} returns nothing, so that no event passes: return the condition."
        )


# -- the class ---------------------------------------------------------------------------------


def _check_attributes(cls: type[FIFOFilter]) -> None:
    idle = cls.idle_after
    seconds = isinstance(idle, int | float) and not isinstance(idle, bool) and idle > 0
    for name, fits, expected in (
        ("on_error", cls.on_error in ("skip", "stop"), '"skip" or "stop"'),
        ("effects", cls.effects in ("keep", "ignore"), '"keep" or "ignore"'),
        ("shared", isinstance(cls.shared, bool), "True or False"),
        ("idle_after", idle is None or seconds, "None or a number of seconds above 0"),
        ("output", cls.output is None or isinstance(cls.output, type), "None or a class"),
    ):
        if not fits:
            raise InvalidFilter(
                f"{cls.__qualname__}.{name} is {expected}; got {getattr(cls, name)!r}."
            )


def _check_constructor(cls: type[FIFOFilter], args: tuple[Any, ...]) -> None:
    name = cls.__qualname__
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))  # type: ignore[attr-defined]
        raise InvalidFilter(f"{name} is abstract: derive a subclass that defines {missing}.")
    if type(cls).__call__ is not type.__call__:
        return  # its metaclass makes instances in its own way
    makers = [
        maker
        for maker in (cls.__new__, cls.__init__)
        if isinstance(maker, FunctionType) and maker is not FIFOFilter.__new__
    ]
    if args and not makers:
        raise InvalidFilter(
            f"{name} takes no arguments, and got {len(args)}: derive {name} itself, or give it an "
            "__init__."
        )
    for maker in makers:
        if error := _misfit(maker, None, *args):
            raise InvalidFilter(
                f"{name} cannot be made with these arguments: {error}. Derive it with those that "
                f"its constructor needs, ({name}, argument, …), or an instance of it."
            )


def _check_method(cls: type[FIFOFilter], name: str, takes: tuple[str, ...]) -> None:
    member = inspect.getattr_static(cls, name)
    what, bound = f"{cls.__qualname__}.{name}", True
    if isinstance(member, staticmethod | classmethod):
        if name == "enqueue":
            raise InvalidFilter(
                f"{what} is a {type(member).__name__}, and so cannot forward: define "
                "enqueue(self, event)."
            )
        member, bound = member.__func__, isinstance(member, classmethod)
    if isinstance(member, functools.partialmethod):
        member, takes = member.func, ()  # how many it is given besides is not looked into
        _refuse_what_only_makes(what, member)
    elif isinstance(member, FunctionType):
        _check_call(what, member, (*(("self",) if bound else ()), *takes))
    elif not callable(member) and not hasattr(type(member), "__get__"):
        raise InvalidFilter(f"{what} is {member!r}: define {name}({', '.join(('self', *takes))}).")


def _check_forwards(cls: type[FIFOFilter], found: Extraction) -> None:
    """Look at a class of which no method names `enqueue`, and so none forwards, unless a function
    does that it gives itself to."""
    if any(_may_forward(parent) for parent in cls.__mro__ if parent not in FIFOFilter.__mro__):
        return
    enqueue = inspect.getattr_static(cls, "enqueue")
    answers = isinstance(enqueue, FunctionType) and any(_returns(enqueue.__code__))
    does = "returns a value, which nobody reads" if answers else "does nothing"
    text = (
        f"{cls.__qualname__}.enqueue {does}, and never forwards: call super().enqueue(event) for "
        "the events that shall pass, or derive a plain function of the content."
    )
    if found.exact and found.predicate == FALSE:
        raise InvalidFilter(text)
    if answers:
        warnings.warn(text, FilterWarning, stacklevel=6)  # at the call of derive


def _may_forward(cls: type) -> bool:
    """Whether a method names `enqueue`, or is one that cannot be looked into."""
    for member in vars(cls).values():
        inner: tuple[object, ...] = (member,)
        match member:
            case property():
                inner = (member.fget, member.fset, member.fdel)
            case staticmethod() | classmethod():
                inner = (member.__func__,)
            case GetSetDescriptorType() | MemberDescriptorType():  # as __dict__, or of a slot
                continue
        for each in inner:
            if isinstance(each, FunctionType):
                named = {name for code in _codes(each) for name in code.co_names}
                if _wraps(each) or named & {"enqueue", "_forwarded"}:
                    return True
            elif hasattr(type(each), "__get__"):
                return True
    return False


def _wraps(function: FunctionType) -> bool:
    """Whether it may call a function that it closes over, as a decorator's does."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells.pop("__class__", None)
    return any(callable(getattr(cell, "cell_contents", len)) for cell in cells.values())


# -- calls -------------------------------------------------------------------------------------


def _check_call(what: str, function: Any, takes: tuple[str, ...]) -> None:
    _refuse_what_only_makes(what, function)
    if not callable(function):
        raise InvalidFilter(f"{what} is {function!r}, which cannot be called.")
    if error := _misfit(function, *takes):
        raise InvalidFilter(
            f"{what} cannot be called with ({', '.join(takes)}), as it will be: {error}."
        )


def _refuse_what_only_makes(what: str, function: Any) -> None:
    while isinstance(function, functools.partial):
        function = function.func
    code = (
        function
        if inspect.isroutine(function)
        else inspect.getattr_static(function, "__call__", None)
    )
    if inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code):
        raise InvalidFilter(
            f"{what} is async, and a call of it does nothing before it is awaited: write a plain "
            "def; what has to be awaited belongs to the consumer, or to a thread of its own."
        )
    if inspect.isgeneratorfunction(code):
        raise InvalidFilter(
            f"{what} is a generator function (it has a yield), and a call of it does nothing "
            "before somebody iterates: write a plain def without yield."
        )


def _misfit(function: Any, *args: object) -> str:
    """Why it cannot be called with these arguments; empty if it can, or nobody knows."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args)
    except TypeError as error:
        return str(error)
    return ""


def _returns(code: CodeType) -> Iterator[bool]:
    """For each `return`, also that at the end: whether it returns anything but None itself."""
    before: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_CONST":
            yield instruction.argval is not None
        elif instruction.opname == "RETURN_VALUE":
            yield not (before.opname == "LOAD_CONST" and before.argval is None)
        before = instruction


def _codes(function: FunctionType) -> Iterator[CodeType]:
    pending = [function.__code__]
    while pending:
        code = pending.pop()
        yield code
        pending += [const for const in code.co_consts if isinstance(const, CodeType)]
