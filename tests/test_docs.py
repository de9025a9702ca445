"""The docs say what is: names, commands, links, examples and section numbers are checked."""

import doctest
import importlib
import re
import shlex
from pathlib import Path

import click
import pytest
import typer.main

from pv4fad.cli.main import COMMANDS, app
from pv4fad.protocol.order import ROWS
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import AGGREGATOR, BANK, PAYMENT_NETWORK
from tests.kit.kinds import kinds_in_code
from tests.kit.pages import anchors, rows, sections

ROOT = Path(__file__).parents[1]
DOCS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PROTOCOL = ROOT / "docs" / "understand" / "protocol.md"
GLOSSARY = ROOT / "docs" / "understand" / "glossary.md"

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")
_IN_DOCS = pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))


def resolve(dotted: str) -> object:
    """The object of a dotted name: the longest importable module, then attributes."""
    parts = dotted.split(".")
    for n_module in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:n_module]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[n_module:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(dotted)


@_IN_DOCS
def test_links_lead_somewhere(page):
    for target in _LINK.findall(_FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        assert aim.exists(), f"{target} in {page.name}"
        assert not fragment or fragment in anchors(aim), f"{target} in {page.name}"


def test_pages_that_the_code_names_exist():
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    named = {page for file in files for page in re.findall(r"docs/[\w/-]+\.md", file.read_text())}
    assert len(named) > 5
    for page in named:
        assert (ROOT / page).is_file(), page


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "README.md"
    decisions = ROOT / "docs" / "understand" / "decisions" / "README.md"
    pages = set(index.parent.rglob("*.md")) - {index}
    linked = {
        (contents.parent / link).resolve()
        for contents in (index, decisions)
        for link in _LINK.findall(contents.read_text())
    }
    assert pages <= linked


def shown_commands(page: Path) -> set[str]:
    """Everything on a page that looks like a call of the command line."""
    text = page.read_text()
    inline = _CODE.findall(_FENCE.sub("", text))
    lines = [line.strip() for block in _FENCE.findall(text) for line in block.splitlines()]
    candidates = [one.removeprefix("$ ").removeprefix(".venv/bin/") for one in inline + lines]
    return {one for one in candidates if re.match(r"pv4fad( |$)", one)}


@_IN_DOCS
def test_commands_in_the_docs_exist_with_their_options(page):
    for shown in shown_commands(page):
        command: click.Command = typer.main.get_command(app)
        words = shlex.split(shown, comments=True)[1:]
        if words and not words[0].startswith("-"):
            assert words[0] in COMMANDS, f"{shown} in {page.name}"
            command = COMMANDS[words[0]].load(words.pop(0))
        while words and isinstance(command, click.Group) and not words[0].startswith("-"):
            assert words[0] in command.commands, f"{shown} in {page.name}"
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        options = {word.strip("[]").partition("=")[0] for word in words if "--" in word}
        assert options <= known | {"--help"}, f"{shown} in {page.name}"


def test_the_changelog_says_each_thing_once():
    """Entries that begin alike are what a merge of two branches leaves."""
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    begun = [line[:40] for line in lines if line.startswith("- ")]
    assert len(begun) > 50
    assert sorted(set(begun)) == sorted(begun)


def test_every_option_of_training_has_one_row():
    table = rows(sections(ROOT / "docs" / "operate" / "training.md")["Options"])
    listed = [option for row in table for option in _CODE.findall(row[0])]
    assert len(listed) > 15
    assert sorted(set(listed)) == sorted(listed)


def test_commands_are_found_in_the_docs():
    # Or else the test above would check nothing.
    assert len(set().union(*map(shown_commands, DOCS))) > 5


@_IN_DOCS
def test_dotted_names_in_the_docs_exist(page):
    for name in _CODE.findall(_FENCE.sub("", page.read_text())):
        if re.fullmatch(r"pv4fad(\.\w+)+", name):
            resolve(name)


@_IN_DOCS
def test_what_python_in_the_docs_imports_exists(page):
    for block in _FENCE.findall(page.read_text()):
        imports = re.findall(r"^(?:>>> )?from (pv4fad[\w.]*) import (.*)$", block, re.MULTILINE)
        for module, names in imports:
            for name in names.split(", "):
                resolve(f"{module}.{name}")


def test_functions_in_the_protocol_table_exist():
    table = rows(sections(PROTOCOL)["10. From the paper to the code"])
    names = [name for row in table for name in _CODE.findall(row[1])]
    assert len(names) > 20
    for name in names:
        assert callable(resolve(f"pv4fad.{name}")), name


def test_the_message_table_lists_exactly_the_kinds_of_messages():
    listed = [
        name for row in rows(sections(PROTOCOL)["8. Messages"]) for name in _CODE.findall(row[1])
    ]
    assert len(listed) == len(set(listed))
    assert set(listed) == kinds_in_code()


def directions(text: str) -> set[tuple[str, str]]:
    """Every X → Y; of B → A → S, both."""
    text = text.replace("S → all", "S → A, S → B")
    return set(re.findall(r"\b([SBA]) → (?=([SBA])\b)", text))


def test_the_message_table_has_the_directions_and_modes_of_the_order():
    role = {"S": PAYMENT_NETWORK, "B": BANK, "A": AGGREGATOR}
    for row in rows(sections(PROTOCOL)["8. Messages"]):
        (kind,) = _CODE.findall(row[1])
        if kind == Receipt.kind:
            continue
        sent = [one for one in ROWS if one.message.kind == kind]
        answered = [one for one in ROWS if one.answer is not None and one.answer.kind == kind]
        wanted = {(one.sender, one.receiver) for one in sent}
        wanted |= {(one.receiver, one.sender) for one in answered}
        assert {(role[x], role[y]) for x, y in directions(row[2])} == wanted, kind
        modes = {mode for one in (*sent, *answered) for mode in one.modes}
        assert ("*paper*" in row[2]) == ("counts" not in modes), kind
        assert ("sealed" in row[2]) == (modes == {"sealed"}), kind


def test_messages_named_in_the_protocol_table_exist():
    table = rows(sections(PROTOCOL)["10. From the paper to the code"])
    assert {name for row in table for name in _CODE.findall(row[2])} <= kinds_in_code()


def test_sections_that_the_code_refers_to_exist():
    numbered = {}
    for heading, text in sections(PROTOCOL).items():
        section = re.match(r"(\d+)\. ", heading)
        if section:
            numbered[section[1]] = set(re.findall(r"^(\d+)\. ", text, re.MULTILINE))
    numbered["8"] = {row[0] for row in rows(sections(PROTOCOL)["8. Messages"])}
    references = [
        reference
        for file in [*(ROOT / "src").rglob("*.py"), PROTOCOL]
        for reference in re.findall(r"§(\d+)(?:\.(\d+))?", file.read_text())
    ]
    assert len(references) > 30
    for section, item in references:
        assert section in numbered, f"§{section}"
        assert not item or item in numbered[section], f"§{section}.{item}"


def glossary() -> list[list[str]]:
    return rows(GLOSSARY.read_text())


def test_glossary_terms_are_in_use_and_their_code_exists():
    others = [*(page for page in DOCS if page != GLOSSARY), *(ROOT / "src").rglob("*.py")]
    used = " ".join(page.read_text().lower() for page in others)
    for term, _, code, _ in glossary():
        for name in _CODE.findall(code):
            resolve(name)
        for spelling in term.lower().split(", "):
            assert re.search(rf"\b{re.escape(spelling)}", used), term


@_IN_DOCS
def test_words_that_the_glossary_rules_out_do_not_occur(page):
    if page == GLOSSARY:
        return
    text = _FENCE.sub("", page.read_text()).lower()
    for *_, avoided in glossary():
        for word in filter(None, avoided.lower().split(", ")):
            assert not re.search(rf"\b{re.escape(word)}\b", text), f"{word} in {page.name}"


@_IN_DOCS
def test_examples_in_the_docs_print_what_they_show(page):
    assert doctest.testfile(str(page), module_relative=False).failed == 0


def test_the_protocol_page_has_examples():
    assert doctest.testfile(str(PROTOCOL), module_relative=False).attempted >= 4
