"""The notebook on payments."""

from pathlib import Path

import pytest
from tests.kit.notebook import has_output, run_notebook

NOTEBOOK = Path(__file__).parents[2] / "examples" / "payments" / "payments.ipynb"


def test_the_notebook_is_kept_without_output():
    assert not has_output(NOTEBOOK)


@pytest.mark.slow
def test_the_notebook_runs():
    names = run_notebook(NOTEBOOK)
    assert names["predictions"].height == names["new"].height
    assert 0 < names["alerts"].height < names["new"].height / 10
    assert names["gain"]["score"].to_list() == ["LocalScore", "Score"]
    assert (names["run"] / "run.json").is_file()
