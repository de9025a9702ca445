"""How `pv4fad` begins."""

import sys
from types import ModuleType

import pytest

from pv4fad import __main__


class Interrupted(ModuleType):
    """A module during whose import somebody presses Ctrl-C."""

    @property
    def main(self):
        raise KeyboardInterrupt


def test_an_interrupt_while_modules_load_is_no_traceback(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pv4fad.cli.main", Interrupted("pv4fad.cli.main"))
    with pytest.raises(SystemExit, match="130"):
        __main__.main()
    assert capsys.readouterr().err == "error: interrupted\n"


def test_the_command_starts(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pv4fad", "--version"])
    __main__.main()
    assert capsys.readouterr().out.startswith("pv4fad ")
