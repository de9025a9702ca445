"""Runs the code of a notebook without Jupyter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def code_cells(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def run_notebook(path: Path) -> dict[str, Any]:
    """What the names mean after all code cells have been run, in the notebook's folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        patch.syspath_prepend(path.parent)
        for number, cell in enumerate(code_cells(path), 1):
            source = "".join(cell["source"])
            exec(compile(source, f"{path.name}, code cell {number}", "exec"), names)  # noqa: S102
    return names


def has_output(path: Path) -> bool:
    return any(cell["outputs"] or cell["execution_count"] for cell in code_cells(path))
