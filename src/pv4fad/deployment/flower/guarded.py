"""Runs a program of Flower that ends when its starter ends, and accepts no app but ours.

    python -m pv4fad.deployment.flower.guarded flower-supernode --superlink ...

The starter keeps a pipe to standard input open; when it ends, however it ends, so does this
process.  It has a process group of its own, and takes all of it along: an app of Flower that waits
for a node which is gone ignores polite signals.

A SuperLink runs whatever app is submitted through its control interface, and so does every
SuperNode behind it.  Without a check, anyone who reaches that interface could run code at every
party.  So an app other than the one that is installed here is refused before it is started: by the
SuperLink when it is submitted, by a SuperNode when the SuperLink sends it.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from threading import Thread
from typing import Any

APP_FOLDER = Path(__file__).parent / "app"
_PATIENCE_S = 10.0
REFUSED = "refused: an app that is not the one of this PV4FAD version"
# Where each program reads the configuration of an app that is new to it; nothing of the app has
# been started by then.
_READS_APPS = {
    "flower-supernode": ("flwr.supernode.start_client_internal", "get_fused_config_from_fab"),
    "flower-superlink": ("flwr.superlink.servicer.control.control_handlers", "get_fab_config"),
}


def main() -> None:
    """Run the program named by the first argument with the other arguments."""
    program, *arguments = sys.argv[1:]
    os.setpgid(0, 0)
    Thread(target=_end_with_starter, daemon=True).start()
    refuse_other_apps(program)
    (found,) = entry_points(group="console_scripts", name=program)
    sys.argv = [program, *arguments]
    try:
        found.load()()
    finally:
        _end_group()


def _end_with_starter() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE_S)
    _end_group()


def _end_group() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def refuse_other_apps(program: str) -> None:
    """From now on this process takes no app but ours."""
    from flwr.cli.build import build_fab_from_disk  # noqa: PLC0415  Flower is an extra

    ours = hashlib.sha256(build_fab_from_disk(APP_FOLDER)).digest()
    module_name, name = _READS_APPS[program]
    module = import_module(module_name)
    read = getattr(module, name)

    def read_ours(app: bytes, *more: Any) -> Any:
        if hashlib.sha256(app).digest() != ours:
            sys.stderr.write(f"{REFUSED}\n")
            sys.stderr.flush()
            if program == "flower-supernode":
                os._exit(1)  # a SuperLink that sends another app is not to be trusted
            raise ValueError(REFUSED)
        return read(app, *more)

    setattr(module, name, read_ours)


if __name__ == "__main__":
    main()
