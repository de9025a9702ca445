"""Tells a wheel and an sdist which commit they are made of: pv4fad/cli/origin.txt.

Hatchling calls this while it builds.  An editable install gets no such file: there
`pv4fad --version` asks git.  A wheel that is built from an sdist takes the sdist's.
"""

import os
import runpy
import tempfile
import time
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_CLI = Path("src/pv4fad/cli")


class OriginHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        origin = runpy.run_path(str(Path(self.root, _CLI, "origin.py")))
        if version == "editable" or Path(self.root, _CLI, origin["FILE"]).exists():
            return
        built_s = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
        day = time.strftime("%Y-%m-%d", time.gmtime(built_s))
        self._folder = tempfile.TemporaryDirectory()
        written = Path(self._folder.name, origin["FILE"])
        written.write_text(f"{origin['commit_of'](Path(self.root, _CLI))}, built on {day}\n")
        inside = _CLI if self.target_name == "sdist" else _CLI.relative_to("src")
        build_data["force_include"][str(written)] = str(inside / origin["FILE"])
