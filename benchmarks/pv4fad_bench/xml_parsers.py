"""Parsers for pacs.008, by the CPU seconds that they take for one file (decisions/0012).

Ours makes the records of the file.  The others are timed with the least that a reader would have to
do with them: look at every element of a transaction, take its text and its currency, and forget it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from pv4fad.errors import DataError
from pv4fad.payments.iso20022.pacs008 import LAYOUT
from pv4fad.payments.iso20022.records import read_records


def parser_seconds(file: Path) -> dict[str, float]:
    """By parser; those that are not installed are left out."""
    found = {"expat, our handlers": _cpu_s(partial(_ours, file))}
    for name, module, options in (
        ("lxml iterparse", "lxml.etree", {"resolve_entities": False, "no_network": True}),
        ("defusedxml iterparse", "defusedxml.ElementTree", {}),
    ):
        try:
            parser = import_module(module)
        except ImportError:
            continue
        found[name] = _cpu_s(partial(_theirs, parser.iterparse, file, options))
    return found


def _cpu_s(read: Callable[[], int]) -> float:
    begin = time.process_time()
    if not read():
        raise DataError("the file has no transactions")
    return round(time.process_time() - begin, 1)


def _ours(file: Path) -> int:
    return sum(len(records) for _, records in read_records(file, [LAYOUT], set()))


def _theirs(iterparse: Callable[..., Any], file: Path, options: dict[str, bool]) -> int:
    n_rows = 0
    for _, element in iterparse(str(file), **options):
        if element.tag.endswith(f"}}{LAYOUT.record}"):
            row = [(one.tag, one.text, one.attrib.get("Ccy")) for one in element.iter()]
            n_rows += bool(row)
            element.clear()
    return n_rows
