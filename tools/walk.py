"""How far a command walks through the house: files it passes, and how often it changes package.

    python tools/walk.py train DATA RUN --epsilon 1 ...      (any command of pv4fad)

A file counts when a function of it is called in this process; worker processes are left out.  Files
are taken in the order of their first call, and a change is where the next file is in another
package, the top folders of src/pv4fad.  `--list` before the command prints that order.
"""

from __future__ import annotations

import sys
import threading
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pv4fad

ROOT = Path(pv4fad.__file__).parent


def walk(arguments: list[str]) -> list[str]:
    """The files of the package that a command passes, in the order of their first call."""
    passed: dict[str, None] = {}
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_filename in seen or code.co_name == "<module>":
            return
        if not code.co_qualname.isidentifier() and code.co_qualname.startswith("<"):
            return
        seen.add(code.co_filename)
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT):
            passed[str(path.relative_to(ROOT))] = None

    from pv4fad.cli.main import main  # noqa: PLC0415  what is loaded is not what is passed

    sys.argv = ["pv4fad", *arguments]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(passed)


def n_changes(files: list[str]) -> int:
    """How often the next file is in another package."""
    packages = [Path(file).parts[0] for file in files]
    return sum(here != there for here, there in pairwise(packages))


if __name__ == "__main__":
    wanted = sys.argv[1:]
    listed = wanted[:1] == ["--list"]
    files = walk(wanted[listed:])
    if listed:
        print("\n".join(files))
    print(f"pv4fad {wanted[listed]}: {len(files)} files, {n_changes(files)} changes of package")
