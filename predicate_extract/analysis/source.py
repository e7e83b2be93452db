"""The source of a function, only if it surely is the code that runs.

The file is compiled again and the live code object must be found in the result, equal to the last
instruction, constant and column. So an edited file, a wrapped function, or a lambda among others on
its line is either matched for certain or refused. Then, or without a file, the source may still be
reconstructed from the bytecode; it shows the function, and nothing of what is around it.
"""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType, FunctionType

from predicate_extract.analysis.bindings import Names, names_of
from predicate_extract.analysis.bytecode import reconstructed
from predicate_extract.analysis.nodes import FunctionNode, Nodes
from predicate_extract.report import Weaken


class SourceFile:
    """A parsed file with the code it compiles to; `whole`, unless it holds one function only, so
    that other code that binds its names is out of sight."""

    def __init__(self, filename: str, text: str, whole: bool = True) -> None:
        self.filename = filename
        self.whole = whole
        self.lines = tuple(text.split("\n"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tree = ast.parse(text, filename)
            module = compile(self.tree, filename, "exec", dont_inherit=True)
        self._codes: dict[tuple[str, int], list[CodeType]] = {}
        for code in _nested(module):
            self._codes.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
        self.nodes = Nodes(self.tree)
        self.parents = self.nodes.parents
        self._names: dict[ast.AST, Names] = {}
        self._functions: dict[int, list[FunctionNode]] = {}
        for node in self.nodes:
            if isinstance(node, FunctionNode):
                self._functions.setdefault(_first_line(node), []).append(node)

    @cached_property
    def loads(self) -> dict[str, list[ast.Name]]:
        """Every place where a name is read."""
        found: dict[str, list[ast.Name]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, []).append(node)
        return found

    @cached_property
    def set_attributes(self) -> frozenset[str]:
        """The attributes that the file sets on anything but `self`: they are no constants."""
        found: set[str] = set()
        for node in self.nodes:
            if not isinstance(node, (ast.Attribute, ast.Call)):
                continue
            match node:
                case ast.Attribute(owner, name, ast.Store() | ast.Del()):
                    if not (isinstance(owner, ast.Name) and owner.id == "self"):
                        found.add(name)
                case ast.Call(ast.Name("setattr" | "delattr"), [_, ast.Constant(str(name)), *_]):
                    found.add(name)
        return frozenset(found)

    def names(self, scope: ast.AST) -> Names:
        """What binds names in the module, a function or a comprehension."""
        if scope not in self._names:
            self._names[scope] = names_of(scope, self.nodes)
        return self._names[scope]

    def codes(self, qualname: str, first_line: int) -> list[CodeType]:
        """The code objects that the functions of this name on this line compile to."""
        return self._codes.get((qualname, first_line), [])

    def compiles_to(self, code: CodeType) -> bool:
        """Whether exactly this code object results from the file."""
        candidates = self.codes(code.co_qualname, code.co_firstlineno)
        positions = list(code.co_positions())
        return any(c == code and list(c.co_positions()) == positions for c in candidates)

    def node_of(self, code: CodeType) -> FunctionNode | None:
        """The function that `code` was compiled from, or None if several could be it."""
        nodes = [
            n for n in self._functions.get(code.co_firstlineno, ()) if _name(n) == code.co_name
        ]
        if code.co_name == "<lambda>" and len(nodes) > 1:
            # Only the right one's body spans exactly what one instruction (the return) spans.
            spans = set(code.co_positions())
            nodes = [n for n in nodes if isinstance(n, ast.Lambda) and _span(n.body) in spans]
        return nodes[0] if len(nodes) == 1 else None


@dataclass(frozen=True, slots=True)
class Source:
    """A function's place in its file."""

    file: SourceFile
    node: FunctionNode

    @property
    def first_line(self) -> int:
        return _first_line(self.node)

    def walk(self) -> list[ast.AST]:
        """The function's node and all below it."""
        return self.file.nodes.walk(self.node)

    @property
    def text(self) -> str:
        """The whole lines that the function stands on."""
        last = self.node.end_lineno or self.first_line
        return "\n".join(self.file.lines[self.first_line - 1 : last])

    def snippet(self, node: ast.AST) -> str:
        """The first line of a node's source."""
        line: int | None = getattr(node, "lineno", None)
        if line is None:
            return ""
        raw = self.file.lines[line - 1].encode()
        end = node.end_col_offset if node.end_lineno == line else None  # type: ignore[attr-defined]
        return raw[node.col_offset : end].decode().strip()  # type: ignore[attr-defined]


def trusted_source(function: FunctionType) -> Source:
    """The source that `function` was surely compiled from, or one that surely means the same.

    Raises: Weaken, if there is none.
    """
    try:
        return _source_in_file(function)
    except Weaken as weaken:
        # What is known of a method's class is also read in the file, which may have changed there.
        owner = function.__code__.co_qualname.rpartition(".")[0]
        if weaken.kind == "stale-source" and owner and not owner.endswith("<locals>"):
            raise
        source = _source_from_bytecode(function)
        if source is None:
            raise
        return source


def _source_from_bytecode(function: FunctionType) -> Source | None:
    tree = reconstructed(function)
    if tree is None:
        return None
    file = parsed("<bytecode>", ast.unparse(tree), whole=False)
    (statement,) = file.tree.body
    node = statement.value if isinstance(statement, ast.Expr) else statement
    assert isinstance(node, FunctionNode)
    return Source(file, node)


def _source_in_file(function: FunctionType) -> Source:
    code = function.__code__
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    if not text:
        raise Weaken(
            "no-source",
            f"the source of {function.__qualname__} is not available",
            "define the filter in a file",
        )
    try:
        file = parsed(code.co_filename, text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Weaken("stale-source", f"{code.co_filename} cannot be compiled: {error}") from error
    if not file.compiles_to(code):
        raise Weaken(
            "stale-source",
            f"{code.co_filename} does not hold the code of {function.__qualname__} that runs",
            "load the edited file again, or remove the decorator that changes the function",
        )
    node = file.node_of(code)
    if node is None:
        raise Weaken(
            "ambiguous-source",
            f"several functions on line {code.co_firstlineno} could be {function.__qualname__}",
            "give each lambda a line of its own",
        )
    return Source(file, node)


@lru_cache(maxsize=32)
def parsed(filename: str, text: str, whole: bool = True) -> SourceFile:
    """A file, parsed and compiled once."""
    return SourceFile(filename, text, whole)


def _nested(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _nested(const)


def _name(node: FunctionNode) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: FunctionNode) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _span(node: ast.expr) -> tuple[int | None, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
