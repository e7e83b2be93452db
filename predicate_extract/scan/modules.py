"""A module as importing it would make it, put together from its source: nothing of it is run.

Functions are made from the compiled code, classes from their bases and functions, and constants are
computed where only literals and a few pure functions take part. Modules of the standard library are
imported; those of the tree are read as well; of all others, and of what would have to be run, only
the name is known, which the analysis refuses to follow.
"""

from __future__ import annotations

import ast
import builtins
import enum
import importlib
import operator
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from predicate_extract.algebra.cost import Undecided, check_all, check_size
from predicate_extract.analysis.bindings import bound_name
from predicate_extract.analysis.code import MAKERS
from predicate_extract.analysis.nodes import FunctionNode
from predicate_extract.analysis.source import SourceFile, parsed

_COLLECTIONS = (frozenset, set, tuple, list, dict)
# Importing one of these does something.
_UNWELCOME = {"antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo", "test", "site"}
_STATIC = (staticmethod, classmethod, property)


class NotRun:
    """Stands for what only running the module would tell."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}, not run>"


class Tree:
    """The modules under a folder. `known`: modules outside it that may be used as they are."""

    def __init__(self, root: Path, known: Mapping[str, ModuleType]) -> None:
        self.root = root
        self._known = known
        self._modules: dict[Path, ModuleType] = {}

    def module(self, path: Path) -> ModuleType:
        """The module of a file.

        Raises: SyntaxError, ValueError or OSError, if it cannot be read or compiled.
        """
        if path not in self._modules:
            text = path.read_text(encoding="utf-8")
            module = ModuleType(".".join(path.relative_to(self.root).with_suffix("").parts))
            module.__file__ = str(path)
            self._modules[path] = module  # before its imports, which may lead back to it
            _Reader(self, path, module, parsed(str(path), text)).read()
        return self._modules[path]

    def imported(self, name: str, level: int, path: Path) -> Any:
        """What `import name` in a file gives."""
        if level:
            folder = path.parent
            for _ in range(level - 1):
                folder = folder.parent
            return self._in_tree(folder, name)
        if name in self._known:
            return self._known[name]
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names and top not in _UNWELCOME:
            try:
                return importlib.import_module(name)
            except ImportError:
                return NotRun(name)
        found = self._in_tree(path.parent, name)
        return self._in_tree(self.root, name) if isinstance(found, NotRun) else found

    def _in_tree(self, folder: Path, name: str) -> Any:
        place = folder.joinpath(*name.split(".")) if name else folder
        for candidate in (place.with_suffix(".py"), place / "__init__.py"):
            inside = candidate.is_relative_to(self.root)
            if inside and candidate.is_file():
                try:
                    return self.module(candidate)
                except (SyntaxError, ValueError, OSError):
                    return NotRun(name)
        return NotRun(name or str(folder))


class _Reader:
    """Fills a module's namespace, statement by statement."""

    def __init__(self, tree: Tree, path: Path, module: ModuleType, file: SourceFile) -> None:
        self._tree = tree
        self._path = path
        self._file = file
        self._names = vars(module)

    def read(self) -> None:
        for statement in self._file.tree.body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        names = self._names
        match node:
            case ast.Import(aliases):
                for alias in aliases:
                    first = alias.name.partition(".")[0]
                    found = self._tree.imported(alias.name, 0, self._path)
                    if alias.asname is None and first != alias.name:
                        found = self._tree.imported(first, 0, self._path)
                    names[alias.asname or first] = found
            case ast.ImportFrom(module, aliases, level):
                source = self._tree.imported(module or "", level, self._path)
                for alias in aliases:
                    names[alias.asname or alias.name] = self._from(
                        source, module, level, alias.name
                    )
            case ast.FunctionDef(name=name):
                names[name] = self._function(node, name)
            case ast.ClassDef(name=name):
                names[name] = self._class(node, name)
            case ast.Assign([ast.Name(id=name)], value) | ast.AnnAssign(
                ast.Name(id=name), _, ast.expr() as value
            ):
                names[name] = self._value(value, name, names)
            case ast.If(ast.Name(id="TYPE_CHECKING")):
                pass
            case _:
                for inner in ast.walk(node):
                    if (bound := bound_name(inner)) is not None:
                        names[bound] = NotRun(bound)

    def _from(self, source: Any, module: str | None, level: int, name: str) -> Any:
        if isinstance(source, ModuleType) and hasattr(source, name):
            return getattr(source, name)
        whole = f"{module}.{name}" if module else name
        return self._tree.imported(whole, level, self._path)

    # -- functions and classes -----------------------------------------------------------------

    def _function(self, node: ast.FunctionDef, qualname: str, cell: CellType | None = None) -> Any:
        """The function that a `def` makes, if nothing that must be run changes it."""
        code = self._code(node, qualname)
        closure = None if cell is None else tuple(cell for _ in code.co_freevars) if code else None
        if code is None or len(code.co_freevars) > (cell is not None):
            return NotRun(qualname)
        function = FunctionType(code, self._names, node.name, closure=closure)
        function.__qualname__ = qualname
        function.__module__ = self._names["__name__"]
        a = node.args
        values = [self._value(value, qualname, self._names) for value in a.defaults]
        function.__defaults__ = tuple(values) or None
        named = zip(a.kwonlyargs, a.kw_defaults, strict=True)
        keywords = {
            arg.arg: self._value(value, qualname, self._names) for arg, value in named if value
        }
        function.__kwdefaults__ = keywords or None
        result: Any = function
        for decorator in reversed(node.decorator_list):
            made = self._value(decorator, qualname, self._names)
            if made not in _STATIC or not isinstance(result, FunctionType):
                return NotRun(qualname)
            result = made(result)
        return result

    def _code(self, node: FunctionNode, qualname: str) -> CodeType | None:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        found = self._file.codes(qualname, first)
        return found[0] if len(found) == 1 else None

    def _class(self, node: ast.ClassDef, qualname: str) -> Any:
        bases = [self._value(base, qualname, self._names) for base in node.bases]
        decorated = [self._value(d, qualname, self._names) for d in node.decorator_list]
        if not all(isinstance(base, type) for base in bases) or node.keywords:
            return NotRun(qualname)
        if any(issubclass(base, enum.Enum) for base in bases):
            return self._enum(node, qualname, bases)
        if any("__init_subclass__" in vars(each) for base in bases for each in base.__mro__[:-1]):
            return NotRun(qualname)  # making the class would run it
        cell = CellType()
        members: dict[str, Any] = {
            "__module__": self._names["__name__"],
            "__qualname__": qualname,
            "__doc__": None,
        }
        annotations: dict[str, str] = {}
        for statement in node.body:
            match statement:
                case ast.FunctionDef(name=name):
                    members[name] = self._function(statement, f"{qualname}.{name}", cell)
                case ast.Assign([ast.Name(id=name)], value):
                    members[name] = self._value(value, name, {**self._names, **members})
                case ast.AnnAssign(ast.Name(id=name), annotation, value):
                    annotations[name] = ast.unparse(annotation)
                    if value is not None:
                        members[name] = self._value(value, name, {**self._names, **members})
                case ast.Expr() | ast.Pass():
                    pass
                case _:
                    return NotRun(qualname)
        members["__annotations__"] = annotations
        if any(isinstance(d, NotRun) for d in decorated):
            return NotRun(qualname)
        try:
            made = type(node.name, tuple(bases), members)
        except TypeError:
            return NotRun(qualname)
        cell.cell_contents = made
        return made

    def _enum(self, node: ast.ClassDef, qualname: str, bases: list[Any]) -> Any:
        members: dict[str, Any] = {}
        for statement in node.body:
            match statement:
                case ast.Assign([ast.Name(id=name)], ast.Constant(value)):
                    members[name] = value
                case ast.Assign([ast.Name(id=name)], ast.Call(func)) if (
                    self._value(func, name, self._names) is enum.auto
                ):
                    members[name] = enum.auto()
                case ast.Expr(ast.Constant()):
                    pass
                case _:
                    return NotRun(node.name)
        kind, *mixed = reversed(bases)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return kind(
                    node.name,
                    members,
                    module=self._names["__name__"],
                    qualname=qualname,
                    type=mixed[0] if mixed else None,
                )
        except (TypeError, ValueError):
            return NotRun(node.name)

    # -- constants -----------------------------------------------------------------------------

    def _value(self, node: ast.expr, what: str, names: Mapping[str, Any]) -> Any:
        """The value of an expression, if computing it runs nothing of the tree's own."""
        try:
            return self._computed(node, names)
        except (_Unclear, Undecided):
            return NotRun(what)
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError):
            return NotRun(what)

    def _computed(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(id=name):
                found = names[name] if name in names else vars(builtins)[name]
                if isinstance(found, NotRun):
                    raise _Unclear
                return found
            case ast.Attribute(owner, name) if not name.startswith("__"):
                whole = self._computed(owner, names)
                if not isinstance(whole, ModuleType | type):
                    raise _Unclear
                found = getattr(whole, name)
                if isinstance(found, NotRun):
                    raise _Unclear
                return found
            case ast.Tuple(items):
                return tuple(self._computed(item, names) for item in items)
            case ast.List(items):
                return [self._computed(item, names) for item in items]
            case ast.Set(items):
                return {self._computed(item, names) for item in items}
            case ast.Dict(keys, values) if None not in keys:
                pairs = zip(keys, values, strict=True)
                return {self._computed(k, names): self._computed(v, names) for k, v in pairs}  # type: ignore
            case ast.UnaryOp(ast.USub(), operand):
                return -_plain(self._computed(operand, names))
            case ast.BinOp(left, op, right) if type(op) in _SUMS:
                operands = [_plain(self._computed(side, names)) for side in (left, right)]
                return _SUMS[type(op)](*operands)
            case ast.Call(func, args, keywords) if not any(k.arg is None for k in keywords):
                made = self._computed(func, names)
                if any(made == maker for maker in (*MAKERS, *_COLLECTIONS)):
                    named = {k.arg: self._computed(k.value, names) for k in keywords if k.arg}
                    given = [self._computed(arg, names) for arg in args]
                    if made is not range:
                        check_all(given)  # of a few letters for a large number, or range
                    return made(*given, **named)
        raise _Unclear


_SUMS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _plain(value: Any) -> Any:
    if type(value) not in (int, float):
        raise _Unclear
    check_size(value)
    return value


class _Unclear(Exception):
    """This expression cannot be computed without running code."""
