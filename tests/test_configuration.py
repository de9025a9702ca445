"""The configuration reference is what the models say."""

import runpy
from pathlib import Path

from pv4fad.lead.settings import TrainingOptions

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "operate" / "configuration.md").read_text(encoding="utf-8")


def test_the_page_is_what_make_docs_writes():
    tool = runpy.run_path(str(ROOT / "tools" / "configuration.py"))
    assert tool["configuration_reference"]() == PAGE


def test_every_option_of_training_has_a_line_with_its_default():
    for name, field in TrainingOptions.model_fields.items():
        default = "required" if field.is_required() else field.default
        (line,) = [one for one in PAGE.split("## Schema")[0].splitlines() if f"| `{name}` |" in one]
        assert str("none" if default is None else default) in line
