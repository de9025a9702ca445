"""Starts a program of Flower that ends with whoever started it, and runs no app but ours.

    python -m pv4fad.flower.guarded flower-supernode --superlink ...

The starter keeps a pipe to standard input open; when it ends, however it ends, so does this
process.  A SuperNode runs whatever app the SuperLink hands it, so without a check everybody who
reaches the SuperLink's control interface could run code at every bank: an app other than the one
that is installed here is refused before it is started.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from importlib.metadata import entry_points
from pathlib import Path
from threading import Thread
from typing import Any

APP_FOLDER = Path(__file__).parent / "app"


def main() -> None:
    """The program named by the first argument, with the others as its own."""
    program, *arguments = sys.argv[1:]
    Thread(target=_end_with_starter, daemon=True).start()
    if program == "flower-supernode":
        _refuse_other_apps()
    (found,) = entry_points(group="console_scripts", name=program)
    sys.argv = [program, *arguments]
    found.load()()


def _end_with_starter() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _refuse_other_apps() -> None:
    from flwr.cli.build import build_fab_from_disk  # noqa: PLC0415  only a SuperNode needs it
    from flwr.supernode import start_client_internal  # noqa: PLC0415

    ours = hashlib.sha256(build_fab_from_disk(APP_FOLDER)).digest()
    # The SuperNode reads the app's configuration once, before its first message is handed on.
    name = "get_fused_config_from_fab"
    read_config = getattr(start_client_internal, name)

    def read_config_of_ours(fab: Any, run: Any) -> Any:
        if hashlib.sha256(fab).digest() != ours:
            sys.stderr.write("refused: an app that is not the one of this PV4FAD version\n")
            sys.stderr.flush()
            os._exit(1)
        return read_config(fab, run)

    setattr(start_client_internal, name, read_config_of_ours)


if __name__ == "__main__":
    main()
