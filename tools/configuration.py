"""Write the page about configuration from the models that check it.

python tools/configuration.py > docs/operate/configuration.md      (`make docs` does it)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from pv4fad.deployment.party_folder import LiveSettings, PartySettings
from pv4fad.forest.config import ForestConfig, RandomShape
from pv4fad.forest.pairs import CountConfig
from pv4fad.forest.tree import BankCondition
from pv4fad.lead.settings import TrainingOptions
from pv4fad.protocol.propose.policy import Policy
from pv4fad.rules import Condition, Rule
from pv4fad.schema import RecordSchema, RowsSchema, Schema, SideSchema
from pv4fad.validated import ValidatedModel
from pv4fad.words import Words

_FILES: tuple[tuple[str, str, type[ValidatedModel]], ...] = (
    (
        "Training",
        "Options of `pv4fad train`, and keys of its `--config` file (TOML, dashes instead of"
        " underscores). The command line overrides the file.",
        TrainingOptions,
    ),
    (
        "Schema",
        "A schema file: `schema.toml`, or what `--schema` names ([schema](../use/schema.md)).",
        Schema,
    ),
    ("Schema: rows", "`[rows]` of a schema.", RowsSchema),
    ("Schema: a side", "`[sides.NAME]` of a schema, one for each side.", SideSchema),
    ("Schema: records", "`[record]` of a schema.", RecordSchema),
    ("Schema: words", "`[words]` of a schema.", Words),
    ("A holder's rule", "`[[rules]]` of `rules.toml` beside a holder's file.", Rule),
    (
        "A rule's condition",
        "One of `all` of a rule, or the rule itself.",
        Condition,
    ),
    ("A deployed party", "`party.toml` ([deployment](deployment.md)).", PartySettings),
    ("Live questions", "`[live]` of a payment network's `party.toml`.", LiveSettings),
    ("A bank's policy", "`[policy]` of a bank's `party.toml`.", Policy),
)
_LIBRARY = (ForestConfig, RandomShape, CountConfig)


def configuration_reference() -> str:
    """The whole page."""
    parts = [
        "# Configuration",
        "`make docs` writes this page from the models that check the configuration.",
    ]
    for title, what, model in _FILES:
        parts += [f"## {title}", what, *_section(model)]
    parts += [
        "## In Python",
        "What the options of the paper's model make, if you build a forest yourself.",
    ]
    for model in _LIBRARY:
        parts += [f"### `{model.__module__}.{model.__name__}`", *_section(model)]
    return "\n\n".join(parts) + "\n"


def _section(model: type[ValidatedModel]) -> Iterator[str]:
    rows = [
        "| name | type | default | meaning |",
        "|---|---|---|---|",
        *(
            f"| `{field.alias or name}` | {_type(field)} | {_default(field)} | {_meaning(field)} |"
            for name, field in model.model_fields.items()
        ),
    ]
    about = (model.__doc__ or "").partition(">>>")[0]
    yield from [_flat(about), "\n".join(rows)]


def _type(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(rule, name)}"
        for rule in field.metadata
        for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("min_length", "length ≥"),
                           ("max_length", "length ≤"))
        if getattr(rule, name, None) is not None
    ]  # fmt: skip
    return ", ".join([f"`{_name(field.annotation)}`", *bounds]).replace("|", r"\|")


def _name(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _name(parts[0])
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin in {Union, UnionType}:
        return " | ".join(map(_name, parts))
    if origin is tuple:
        return f"tuple[{', '.join('...' if part is ... else _name(part) for part in parts)}]"
    return "None" if annotation is NoneType else str(annotation.__name__)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, tuple) and value and isinstance(value[0], BankCondition):
        return "both sides, ordinary or not"
    if isinstance(value, ValidatedModel):
        return "see below"
    if isinstance(value, dict) and not value:
        return "empty"
    return "none" if value is None else f"`{value}`" if value != "" else "empty"


def _meaning(field: FieldInfo) -> str:
    return _flat(field.description or "").replace("|", r"\|")


def _flat(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.stdout.write(configuration_reference())
