"""The services of deploy/compose.yaml without a container engine: as processes of this machine.

Commands, entry points, environments and volumes are those of the compose file and of the
Containerfile.  A volume is a folder; where a service names a path in it, the folder's path is put.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from pv4fad.cli.federation_demo import free_ports

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OWNER = "10001:10001"
_CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")


def in_image(instruction: str) -> list[str]:
    """The words of such a line of the Containerfile, in their JSON form."""
    (found,) = re.findall(rf"^{instruction} (\[.*\])$", _CONTAINERFILE, re.MULTILINE)
    return [str(word) for word in json.loads(found)]


def home() -> str:
    """The folder in which the image's command runs."""
    return re.findall(r"^WORKDIR (.*)$", _CONTAINERFILE, re.MULTILINE)[-1]


def mapped(text: str, paths: Mapping[str, Path | str]) -> str:
    """Every path of a container replaced by that of this machine."""
    any_of = "|".join(re.escape(inside) for inside in sorted(paths, key=len, reverse=True))
    return re.sub(rf"(?<![\w/])({any_of})(?![\w-])", lambda found: str(paths[found[0]]), text)


def environment(given: Mapping[str, str], paths: Mapping[str, Path | str]) -> dict[str, str]:
    """Nothing of this machine but where its programs are."""
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    programs = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return kept | {"PATH": programs} | {name: mapped(text, paths) for name, text in given.items()}


class Composed:
    """The services, their volumes in a folder; the hub is at a free port of this machine."""

    def __init__(self, folder: Path, port: int, transactions: int) -> None:
        self.folder = folder
        content = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
        self.content: dict[str, Any] = yaml.safe_load(content)
        self.services: dict[str, dict[str, Any]] = self.content["services"]
        self._constants = {
            "aggregator:8000": f"127.0.0.1:{port}",
            "20000": str(transactions),
            OWNER: f"{os.getuid()}:{os.getgid()}",
        }
        for name in self.content["volumes"]:
            (folder / "volumes" / name).mkdir(parents=True)

    @cached_property
    def metrics_ports(self) -> dict[str, int]:
        """Free ports of this machine."""
        return dict(zip(self.parties, free_ports(len(self.parties)), strict=True))

    @property
    def parties(self) -> list[str]:
        return [name for name in self.services if name != "setup"]

    def volume(self, name: str) -> Path:
        return self.folder / "volumes" / name

    def paths(self, service: str) -> dict[str, Path | str]:
        """What is at the paths of this service's container."""
        given = (volume.split(":") for volume in self.services[service]["volumes"])
        found: dict[str, Path | str] = {inside: self.volume(name) for name, inside, *_ in given}
        own = self.folder / f"tmp-{service}"
        own.mkdir(exist_ok=True)
        return found | {"/tmp": own}  # noqa: S108

    def start(self, service: str, words: Iterable[str] | None = None) -> subprocess.Popen[str]:
        """The service's own command, or another one in its container."""
        settings, paths = self.services[service], self.paths(service)
        if words is None:
            words = [*settings.get("entrypoint", in_image("ENTRYPOINT")), *settings["command"]]
        everything = paths | self._constants | self._scripts(service, paths)
        return subprocess.Popen(
            [mapped(word, everything) for word in words],
            cwd=paths.get(home(), self.folder),
            env=environment(settings.get("environment", {}), paths),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _scripts(self, service: str, paths: Mapping[str, Path | str]) -> dict[str, Path]:
        """The files that the compose file puts into the container."""
        found = {}
        for config in self.services[service].get("configs", ()):
            file = self.content["configs"][config["source"]]["file"]
            text = (DEPLOY / file).read_text(encoding="utf-8")
            above = {str(Path(inside).parent): self.folder / "volumes" for inside in paths}
            del above["/"]
            copy = self.folder / Path(file).name
            copy.write_text(mapped(text, {**paths, **above, **self._constants}))
            found[config["target"]] = copy
        return found

    def run(self, service: str, words: Iterable[str] | None = None) -> tuple[int, str]:
        """To its end: exit code and output."""
        process = self.start(service, words)
        output, _ = process.communicate(timeout=600)
        return process.returncode, output


def stop(process: subprocess.Popen[str], within_s: float) -> int:
    """As an engine does; -9 if that was not enough."""
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode
