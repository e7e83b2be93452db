"""cloudpickle, with three rules of our own for classes, and one for code.

*The user's own modules travel.* A broker has the installed packages, but not the script, module or
notebook in which a filter and its helpers were written (`origins`); these are pickled by value.

*A class that is here already stays as it is.* cloudpickle recognises a class that it has shipped
before, but writes the shipped attributes over it. In the process that defined the class that would
replace its methods by copies: with other globals, and without a source to analyse.

*A filter from a notebook or a shell is a copy everywhere*, as a function is: its globals are those
of the moment at which it was derived, for which its predicate holds, also when a cell runs again.
So is any filter in a process that did not define it.

*Code keeps the name of its file*, which tracebacks show.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
from collections import ChainMap
from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar
from weakref import WeakSet

import cloudpickle
from cloudpickle import cloudpickle as internals

from activebroker.filters.origins import is_users_own
from activebroker.filters.wrapped import REDUCERS, reduce_function

_NO_FILE = "<dynamic-code>"  # what cloudpickle gives for the name of a file
_lock = threading.Lock()  # which modules travel by value is a setting of the whole process
_seen: tuple[ModuleType, ...] = ()  # all modules, when it was last looked which of them travel
_travelling: list[ModuleType] = []
_shipped: WeakSet[type] = WeakSet()  # classes that other processes have defined


def dumps(value: Any) -> bytes:
    """Pickle a value for another process. Raises whatever pickling raises."""
    return _pickled(_Pickler, value)[0]


def classes_in(value: Any, module: str = "") -> dict[type, None]:
    """The classes to which a value refers, by its code too, other than in annotations. Looks into
    the user's own code and that of `module`.

    Raises whatever pickling raises.
    """
    also = [sys.modules[module]] if module in sys.modules and module != "__main__" else []
    return _pickled(_Finder, value, also)[1].classes


def _pickled(pickler: type[P], value: Any, also: Iterable[ModuleType] = ()) -> tuple[bytes, P]:
    with _lock:
        known = cloudpickle.list_registry_pickle_by_value()  # by the user, who keeps them
        travelling = dict.fromkeys([*_travellers(), *also])
        modules = [each for each in travelling if each.__name__ not in known]
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        file = io.BytesIO()
        used = pickler(file, protocol=5)
        try:
            used.dump(value)
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)
    return file.getvalue(), used


def loads(data: bytes, copied: type | None = None) -> Any:
    """Unpickle what `dumps` made; subclasses of `copied` are made anew, but for those that a module
    of this process has defined. This runs code: verify first where it came from."""
    return _Unpickler(io.BytesIO(data), copied).load()


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, tuple(code.co_filename if each == _NO_FILE else each for each in arguments)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table = ChainMap(
        REDUCERS, {CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table
    )

    def reducer_override(self, value: Any) -> Any:
        reduced = reduce_function(value) if isinstance(value, FunctionType) else None
        return super().reducer_override(value) if reduced is None else reduced


class _Finder(_Pickler):
    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.classes: dict[type, None] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type):
            self.classes[value] = None
        reduced = super().reducer_override(value)
        if isinstance(value, FunctionType) and isinstance(reduced, tuple) and len(reduced) == 6:
            _, slots = reduced[2] if isinstance(reduced[2], tuple) else ({}, {})
            slots.pop("__annotations__", None)
        return reduced


P = TypeVar("P", bound=_Pickler)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, copied: type | None) -> None:
        super().__init__(file)
        self._copied = copied
        self._here_already: set[type] = set()

    def find_class(self, module: str, name: str) -> Any:
        if module == internals.__name__:
            match name:
                case "_make_skeleton_class" | "_make_skeleton_enum":
                    return self._make(getattr(internals, name))
                case "_class_setstate":
                    return self._set_state
        return super().find_class(module, name)

    def _make(self, make: Any) -> Any:
        def made_or_known(*arguments: Any) -> Any:
            # Both makers have the tracker id as the last argument but one.
            known = internals._DYNAMIC_CLASS_TRACKER_BY_ID.get(arguments[-2])
            if known is None:
                _shipped.add(made := make(*arguments))
                return made
            copied = self._copied and issubclass(known, self._copied)
            if copied and (known in _shipped or _is_of_session(known)):
                return make(*arguments[:-2], None, arguments[-1])
            self._here_already.add(known)
            return known

        return made_or_known

    def _set_state(self, cls: type, state: Any) -> Any:
        return cls if cls in self._here_already else internals._class_setstate(cls, state)


def _is_of_session(cls: type) -> bool:
    return cls.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__")


def _travellers() -> list[ModuleType]:
    """The modules to be pickled by value. Looked for again when there are others than before."""
    global _seen, _travelling
    now = tuple(sys.modules.values())
    if now != _seen:
        # A module can be there under two names, as __main__ is in a spawned process.
        _seen, _travelling = now, [each for each in dict.fromkeys(now) if _travels(each)]
    return _travelling


def _travels(module: ModuleType | None) -> bool:
    """Whether a module is to be pickled by value. `__main__` is, without being told."""
    if not isinstance(module, ModuleType) or module.__name__ == "__main__":
        return False
    return sys.modules.get(module.__name__) is module and is_users_own(module)
