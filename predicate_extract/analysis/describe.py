"""Words for the code that is not analysed: kind, message, and how to rewrite it."""

from __future__ import annotations

import ast

Words = tuple[str, str, str]


def describe_target(target: ast.expr) -> Words:
    if isinstance(target, ast.Attribute):
        return (
            "changes-state",
            f"this sets the attribute {target.attr}",
            "move it below the guard, so that only events which pass it change anything",
        )
    if isinstance(target, ast.Subscript):
        return (
            "changes-state",
            "this changes an object",
            "move it below the guard, so that only events which pass it change anything",
        )
    return "assignment", "this assignment is not analysed", "assign to one plain name"


def describe(node: ast.AST) -> Words:
    """Kind, message and hint for code that is not analysed."""
    match node:
        case ast.AugAssign(target=(ast.Attribute() | ast.Subscript()) as target):
            return describe_target(target)
        case ast.Call(func):
            return (
                "call",
                f"what {ast.unparse(func)} does is not known",
                "call it below the guard, or compare fields with constants",
            )
        case ast.For() | ast.While() | ast.AsyncFor():
            return "loop", "loops are not analysed", "test the fields before the loop"
        case ast.Try():
            return "try", "try blocks are not analysed", "test the fields before the block"
        case ast.BinOp():
            return "arithmetic", "arithmetic on fields is not analysed", ""
    return "unsupported", f"{type(node).__name__} is not analysed", ""
