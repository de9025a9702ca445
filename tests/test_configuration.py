"""The configuration reference is what the models say."""

import re
import runpy
from pathlib import Path

from pv4fad.deployment.party_folder import PartySettings
from pv4fad.lead.settings import TrainingOptions
from tests.kit.pages import rows, sections

ROOT = Path(__file__).parents[1]
OPERATE = ROOT / "docs" / "operate"
PAGE = (OPERATE / "configuration.md").read_text(encoding="utf-8")


def named(page: str, heading: str) -> set[str]:
    """What the first cells of the table below this heading name, spelled as in Python."""
    cells = [row[0] for row in rows(sections(OPERATE / page)[heading])]
    names = {name for cell in cells for name in re.findall(r"`(?:--|\[)?([\w-]+)\]?`", cell)}
    return {name.replace("-", "_") for name in names}


def test_the_page_is_what_make_docs_writes():
    tool = runpy.run_path(str(ROOT / "tools" / "configuration.py"))
    assert tool["configuration_reference"]() == PAGE


def test_every_option_of_training_has_a_line_with_its_default():
    for name, field in TrainingOptions.model_fields.items():
        default = "required" if field.is_required() else field.default
        (line,) = [one for one in PAGE.split("## Schema")[0].splitlines() if f"| `{name}` |" in one]
        assert str("none" if default is None else default) in line


def test_every_key_has_a_meaning():
    assert not re.findall(r"^.*\| +\|$", PAGE, re.MULTILINE)


def test_the_page_about_training_has_every_option():
    assert set(TrainingOptions.model_fields) <= named("training.md", "Options")


def test_the_page_about_deployment_has_every_entry_of_party_toml():
    assert named("deployment.md", "Settings") == set(PartySettings.model_fields)
