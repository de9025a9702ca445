"""Write the reference of the public names from their docstrings.

python tools/reference.py > docs/use/reference.md      (`make docs` does it)
"""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pv4fad
from pv4fad import estimator
from pv4fad.api.deployed import DeployedFederation
from pv4fad.api.federation import Federation

_WIDTH = 88
_FEDERATION = ("Federation", "Federation of pv4fad.connect")
PUBLIC: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("pv4fad.simulate", pv4fad.simulate, ()),
    ("pv4fad.connect", pv4fad.connect, ()),
    (_FEDERATION[0], Federation, ("holders", "ledgers", "set_limit", "refresh", "close")),
    (_FEDERATION[1], DeployedFederation, ("resume", "abandon")),
    (
        "pv4fad.Detector",
        pv4fad.Detector,
        ("fit", "detect", "predict", "save", "close", "get_params", "set_params"),
    ),
    ("pv4fad.load", pv4fad.load, ()),
    ("pv4fad.Schema", pv4fad.Schema, ()),
    ("pv4fad.payments", pv4fad.payments, ()),
    ("pv4fad.errors", pv4fad.errors, ()),
    (
        "pv4fad.estimator.RandomDecisionForestClassifier",
        estimator.RandomDecisionForestClassifier,
        ("fit", "predict", "predict_proba"),
    ),
    ("pv4fad.estimator.Numeric", estimator.Numeric, ()),
    ("pv4fad.estimator.Categorical", estimator.Categorical, ()),
)
"""Heading, object, and those of its members that are for programs that use it."""


def reference() -> str:
    """The whole page."""
    parts = [
        "# Reference",
        "`make docs` writes this page from the docstrings of the public names; the tests run its"
        " examples, where they stand in the code. [Python](python.md) says how the names go"
        " together, [classifier](estimator.md) what the forest is for.",
    ]
    for heading, found, members in PUBLIC:
        parts += [f"## {heading}", *_entry(found, heading)]
        for name in members:
            title = f"{heading.split()[0].rpartition('.')[2]}.{name}"
            parts += [f"### {title}", *_entry(inspect.getattr_static(found, name), title)]
    return "\n\n".join(parts) + "\n"


def _entry(found: Any, title: str) -> Iterator[str]:
    """A federation comes from a function, so nobody needs its constructor."""
    if not (isinstance(found, ModuleType | property) or title in _FEDERATION):
        yield f"```python\n{_signature(found, title)}\n```"
    yield from _markdown(inspect.getdoc(found) or "")


def _signature(found: Any, title: str) -> str:
    """As in the source: its names of types and defaults are shorter than what they stand for."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(found))).body
    returned = ""
    if isinstance(definition, ast.ClassDef):
        given = _constructor(definition)
    else:
        assert isinstance(definition, ast.FunctionDef)  # noqa: S101
        given = _parameters(definition.args)
        returned = f" -> {ast.unparse(definition.returns)}" if definition.returns else ""
    name = title.rpartition(".")[2] if title.startswith("pv4fad.") else title
    line = f"{name}({', '.join(given)}){returned}"
    if len(line) <= _WIDTH:
        return line
    lines = "".join(f"    {one},\n" for one in given)
    return f"{name}(\n{lines}){returned}"


def _constructor(definition: ast.ClassDef) -> list[str]:
    for part in definition.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return _parameters(part.args)
    fields = [part for part in definition.body if isinstance(part, ast.AnnAssign)]
    for field in fields:
        if isinstance(field.value, ast.Call) and ast.unparse(field.value.func) == "Field":
            field.value = None  # bounds, not a default
    return [ast.unparse(field) for field in fields]


def _parameters(arguments: ast.arguments) -> list[str]:
    arguments.args = [one for one in arguments.args if one.arg != "self"]
    n_plain = len(arguments.args) - len(arguments.defaults)
    given = [ast.unparse(one) for one in arguments.args]
    for place, default in enumerate(arguments.defaults, n_plain):
        given[place] += f" = {ast.unparse(default)}"
    given += ["*"] * bool(arguments.kwonlyargs)
    for one, kw_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        given.append(ast.unparse(one) + (f" = {ast.unparse(kw_default)}" if kw_default else ""))
    return given + [f"**{ast.unparse(one)}" for one in [arguments.kwarg] if one]


def _markdown(text: str) -> Iterator[str]:
    """Paragraphs, lists of arguments, examples, and what is laid out in columns."""
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        lines = paragraph.splitlines()
        if lines[0].startswith(">>>"):
            yield f"```python\n{_example(paragraph)}\n```"
        elif lines[0].startswith("    ") or sum("   " in line for line in lines) > 1:
            yield f"```text\n{textwrap.dedent(paragraph)}\n```"
        else:
            yield re.sub(r"docs/([\w/-]+\.md)", r"[\1](../\1)", _prose(paragraph))


def _prose(paragraph: str) -> str:
    """Where arguments are explained, a list of them."""
    first, *arguments = re.split(r"(?:^|\n|  )(?=`\w+`: )", paragraph)
    said = [" ".join(first.split())] if first.strip() else []
    return "\n\n".join(
        said + ["\n".join(f"* {' '.join(one.split())}" for one in arguments)] * bool(arguments)
    )


def _example(paragraph: str) -> str:
    """What is typed; what it prints as comments, because this page lacks the data to run it."""
    lines = []
    for part in doctest.DocTestParser().get_examples(paragraph + "\n"):
        lines += [part.source.rstrip(), *(f"# {line}" for line in part.want.splitlines())]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(reference())
