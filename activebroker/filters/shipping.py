"""cloudpickle, with two rules of our own for classes.

*The user's own modules travel.* A broker has the installed packages, but not the script, module or
notebook in which a filter and its helpers were written; these are pickled by value.

*A class that is here already stays as it is.* cloudpickle recognises a class that it has shipped
before, but writes the shipped attributes over it. In the process that defined the class that would
replace its methods by copies: with other globals, and without a source to analyse.
"""

from __future__ import annotations

import io
import pickle
import sys
import sysconfig
import threading
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
from cloudpickle import cloudpickle as internals

_lock = threading.Lock()  # which modules travel by value is a setting of the whole process
_seen: tuple[ModuleType, ...] = ()  # all modules, when it was last looked which of them travel
_travelling: list[ModuleType] = []

_INSTALLED = tuple(
    Path(sysconfig.get_path(name)).resolve()
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_OURS = {"activebroker", "derivation", "predicate_extract", "ray_deploy"}


def dumps(value: Any) -> bytes:
    """Pickle a value for another process. Raises whatever pickling raises."""
    with _lock:
        modules = _travellers()
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        try:
            data: bytes = cloudpickle.dumps(value, protocol=5)
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)
    return data


def loads(data: bytes) -> Any:
    """Unpickle what `dumps` made. This runs code: verify first where it came from."""
    return _Unpickler(io.BytesIO(data)).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
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
        def made(*arguments: Any) -> Any:
            # Both makers have the tracker id as the last argument but one.
            known = internals._DYNAMIC_CLASS_TRACKER_BY_ID.get(arguments[-2])
            if known is None:
                return make(*arguments)
            self._here_already.add(known)
            return known

        return made

    def _set_state(self, cls: type, state: Any) -> Any:
        return cls if cls in self._here_already else internals._class_setstate(cls, state)


def _travellers() -> list[ModuleType]:
    """The modules to be pickled by value. Looked for again when there are others than before."""
    global _seen, _travelling
    now = tuple(sys.modules.values())
    if now != _seen:
        # A module can be there under two names, as __main__ is in a spawned process.
        _seen, _travelling = now, [each for each in dict.fromkeys(now) if _travels(each)]
    return _travelling


def _travels(module: ModuleType | None) -> bool:
    """Whether a module is the user's own, to be pickled by value."""
    name, file = getattr(module, "__name__", None), getattr(module, "__file__", None)
    if name is None or file is None or name == "__main__":  # which cloudpickle ships by itself
        return False
    return sys.modules.get(name) is module and _is_users(name, file)


@cache
def _is_users(name: str, file: str) -> bool:
    if name.partition(".")[0] in _OURS:
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(base) for base in _INSTALLED)
