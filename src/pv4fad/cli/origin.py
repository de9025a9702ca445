"""Which code this is: the commit, and the build.

A wheel carries its answer in origin.txt, which hatch_build.py wrote when it was built, so that git
is not needed where it runs.  In a checkout there is no such file, and git is asked.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

FILE = "origin.txt"
_HERE = Path(__file__).parent


def origin() -> str:
    """`commit 1234..., built on 2026-11-18`, or `commit 1234..., from a checkout`."""
    built = _HERE / FILE
    if built.is_file():
        return built.read_text(encoding="utf-8").strip()
    return f"{commit_of(_HERE)}, from a checkout"


def commit_of(folder: Path) -> str:
    """The commit in which this file is there, with a note if something has changed since."""
    if _git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return "unknown commit"  # no git, no repository, or one that only surrounds the package
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain", ":/")
    return f"commit {commit}{' with changes' * bool(changes)}"


def _git(folder: Path, *words: str) -> str | None:
    """What git says; None where it cannot answer."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run(  # noqa: S603
        [git, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None
