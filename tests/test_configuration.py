"""The configuration reference is what the models say."""

from pathlib import Path

from pv4fad.cli.reference import configuration_reference
from pv4fad.lead.settings import TrainingOptions

PAGE = Path(__file__).parents[1] / "docs" / "operate" / "configuration.md"


def test_the_page_is_what_make_docs_writes():
    assert PAGE.read_text(encoding="utf-8") == configuration_reference()


def test_every_option_of_training_has_a_line_with_its_default():
    page = configuration_reference()
    for name, field in TrainingOptions.model_fields.items():
        default = "required" if field.is_required() else field.default
        (line,) = [one for one in page.split("## Schema")[0].splitlines() if f"| `{name}` |" in one]
        assert str("none" if default is None else default) in line
