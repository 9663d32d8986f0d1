"""The docstrings that stand below the attributes of a class, inherited ones included."""

import ast
import inspect
import textwrap
from itertools import pairwise


def attribute_docs(cls: type) -> dict[str, str]:
    """Each attribute's docstring by its name, where it has one."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if owner.__module__.partition(".")[0] == "skillopt_ci":
            found |= _own(owner)
    return found


def _own(cls: type) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
