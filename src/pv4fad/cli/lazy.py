"""Commands that are imported when they are called: `pv4fad --help` needs none of them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc
from typing import Any

import click
import typer
from typer.core import TyperGroup

from pv4fad.errors import ParameterError


@dataclass(frozen=True)
class Lazy:
    """A command or a group of commands."""

    place: str
    """`package.module:name` of a function, or of a Typer app."""
    help: str
    """The first sentence of its own help."""

    def load(self, name: str) -> click.Command:
        """The command itself."""
        module, _, attribute = self.place.partition(":")
        if find_spec(module.partition(".")[0]) is None:
            return _not_installed(name)
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            command: click.Command = typer.main.get_group(found)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(name)(found)
            command = typer.main.get_command(alone)
        command.name = name
        _let_text_flow(command)
        return command


def _let_text_flow(command: click.Command) -> None:
    """Help wraps where the terminal does, not where the lines of the source end."""
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(one.split("\n")) for one in paragraphs)
    if isinstance(command, click.Group):
        for part in command.commands.values():
            _let_text_flow(part)


def lazy_group(commands: dict[str, Lazy]) -> type[TyperGroup]:
    """The class of a group with these commands, in this order."""

    class LazyGroup(TyperGroup):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(commands)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            """For help: its name, and what it does."""
            known = commands.get(cmd_name)
            if known is None:
                return None
            return click.Command(cmd_name, help=known.help)

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            """For a call."""
            name, command, rest = super().resolve_command(ctx, args)
            if name is not None and command is not None:
                command = commands[name].load(name)
            return name, command, rest

    return LazyGroup


def _not_installed(name: str) -> click.Command:
    """Benchmarks are in the source tree (benchmarks/), not in the installed package."""

    def refuse(**_: Any) -> None:
        raise ParameterError(
            f"pv4fad {name} is not part of the installed package: clone the repository, and run"
            " `make env` there"
        )

    settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    return click.Command(name, callback=refuse, context_settings=settings)
