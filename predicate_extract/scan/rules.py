"""Rules over source text, as ast-grep reads them: what is a filter, and what is a hazard in one.

A rule file is YAML, one document a rule, in ast-grep's own form; `metadata: {use: find}` marks what
is a filter, `{use: weaken}` what makes the events that reach it be kept.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import cast

import yaml
from ast_grep_py import Config, SgNode, SgRoot

from predicate_extract.analysis.source import SourceFile
from predicate_extract.errors import PredicateError
from predicate_extract.report import Weaken

_OURS = ("filters.yml", "hazards.yml")


class RuleError(PredicateError):
    """A rule file cannot be used."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `use` is `find` or `weaken`."""

    id: str
    use: str
    message: str
    note: str
    config: Config


def load_rules(paths: Iterable[Path] = ()) -> list[Rule]:
    """The built-in rules, and those of some files.

    Raises: RuleError, with the file and what is wrong in it.
    """
    texts = [(name, files(__package__).joinpath(name).read_text()) for name in _OURS]
    try:
        texts += [(str(path), path.read_text(encoding="utf-8")) for path in paths]
    except OSError as error:
        raise RuleError(f"{error.filename}: {error.strerror}") from error
    return [rule for name, text in texts for rule in _rules_in(name, text)]


def _rules_in(name: str, text: str) -> Iterator[Rule]:
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        raise RuleError(f"{name} is not YAML: {error}") from error
    for document in documents:
        match document:
            case {"id": str(id), "rule": dict(), "metadata": {"use": "find" | "weaken" as use}}:
                parts = {k: document[k] for k in ("rule", "constraints", "utils") if k in document}
                told = document.get("message", id), document.get("note", "")
                rule = Rule(id, use, *told, cast(Config, parts))
            case _:
                raise RuleError(
                    f"{name}: expected an ast-grep rule with id, rule and metadata: "
                    f"{{use: find}} or {{use: weaken}}, got {str(document)[:100]}"
                )
        try:
            list(SgRoot("", "python").root().find_all(rule.config))
        except (RuntimeError, ValueError, TypeError) as error:
            raise RuleError(f"{name}: the rule {id} cannot be used: {error}") from error
        yield rule


def names_found(rules: Iterable[Rule], text: str) -> list[str]:
    """The names of the definitions at the top level that a rule calls a filter, in order.

    Raises: SyntaxError.
    """
    root = _parsed(text)
    if root.find(kind="ERROR") is not None:
        ast.parse(text)  # which says what is wrong, and where
    found: dict[str, int] = {}
    for rule in rules:
        for node in root.find_all(rule.config) if rule.use == "find" else ():
            outside = node.parent()
            while outside is not None and outside.kind() in ("decorated_definition", "block"):
                outside = outside.parent() if outside.kind() == "decorated_definition" else None
            name = node.field("name")
            if outside is not None and outside.kind() == "module" and name is not None:
                found[name.text()] = node.range().start.line
    return sorted(found, key=lambda name: found[name])


@lru_cache(maxsize=8)
def _parsed(text: str) -> SgNode:
    """A file, which is first looked through for filters, and then for hazards."""
    return SgRoot(text, "python").root()


class Hazards:
    """Where the rules find hazards, file by file."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = [rule for rule in rules if rule.use == "weaken"]
        self._places: dict[str, dict[tuple[int, int, int, int], Rule]] = {}

    def __call__(self, file: SourceFile, node: ast.AST) -> Weaken | None:
        """Why the analysis must not go on at a node."""
        if file.filename not in self._places:
            self._places[file.filename] = dict(self._find("\n".join(file.lines)))
        places = self._places[file.filename]
        if not places or not isinstance(node, ast.expr | ast.stmt):
            return None
        rule = places.get(
            (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        )
        return None if rule is None else Weaken(rule.id, rule.message, rule.note)

    def _find(self, text: str) -> Iterator[tuple[tuple[int, int, int, int], Rule]]:
        root = _parsed(text)
        lines = text.split("\n")
        for rule in self._rules:
            for node in root.find_all(rule.config):
                start, end = node.range().start, node.range().end
                # `ast` counts bytes, ast-grep characters.
                first = len(lines[start.line][: start.column].encode())
                last = len(lines[end.line][: end.column].encode())
                yield (start.line + 1, first, end.line + 1, last), rule
