"""Which elements of a kind of message are read, and the tree of them that the parser follows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Self

_NAMESPACE = re.compile(r"urn:iso:std:iso:20022:tech:xsd:([a-z]{4}\.\d{3})\.001\.(\d{2})")


@dataclass(frozen=True)
class Layout:
    """Which elements of a message are read, as paths from the body; `@` names an attribute.

    The fields of the header come before those of the record, and hold for all its records; the
    first is the id of the message.
    An element whose path ends in `*` may occur several times; its texts come on one line each.
    """

    kind: str  # such as pacs.008
    body: str
    record: str
    header: tuple[str, ...]
    fields: tuple[str, ...]
    n_records: str | None = None  # the field of the header that says how many records follow
    needs_record: bool = False  # a message without any is refused

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.header, *(f"{self.record}/{name}" for name in self.fields))


@dataclass(frozen=True)
class Version:
    """Of a kind of message: pacs.008.001.08 is version 8 of pacs.008."""

    kind: str
    number: int

    @classmethod
    def of(cls, namespace: str) -> Self | None:
        """The version that a namespace stands for; None if it is not one of ISO 20022."""
        match = _NAMESPACE.fullmatch(namespace)
        return None if match is None else cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.kind}.001.{self.number:02d}"


@dataclass(slots=True)
class Element:
    """An element that is read or leads to one."""

    path: str
    children: dict[str, Element] = field(default_factory=dict)
    index: int = -1  # of its text among the fields
    attribute: str = ""  # that is read, too
    attribute_index: int = -1
    repeated: bool = False
    is_record: bool = False


def root_element(layout: Layout, namespace: str) -> Element:
    """The Document element, with what is read below it."""
    root = Element("Document")
    for index, name in enumerate(layout.names):
        path, _, attribute = name.partition("@")
        node = root
        for step in [layout.body, *path.removesuffix("*").split("/")]:
            where = "" if node is root else f"{node.path}/"
            node = node.children.setdefault(f"{namespace}|{step}", Element(where + step))
        if attribute:
            node.attribute, node.attribute_index = attribute, index
        else:
            node.index = index
            node.repeated = path.endswith("*")
    node = root
    for step in [layout.body, *layout.record.split("/")]:
        node = node.children[f"{namespace}|{step}"]
    node.is_record = True
    return root
