"""The command `pv4fad`, also as `python -m pv4fad`: interrupts end in a line from the start."""

from __future__ import annotations

import sys


def main() -> None:
    """Loading all modules takes two seconds: long enough for somebody to change their mind."""
    try:
        from pv4fad.cli.main import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
