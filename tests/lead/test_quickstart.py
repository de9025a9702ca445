"""The ten lines, as the pages show them, do what the quick start says."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import pv4fad
from pv4fad.run.folder import RunFolder

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "use" / "quickstart.md"


def examples(page: Path) -> list[str]:
    """The blocks of Python on a page."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def after(tmp_path_factory):
    """What the names in the examples mean after they have been run, and where they were run."""
    names: dict[str, object] = {}
    folder = tmp_path_factory.mktemp("quickstart")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for variable in ("PV4FAD_PASSPHRASE", "PV4FAD_PASSPHRASE_FILE"):
            patch.delenv(variable, raising=False)
        for example in examples(PAGE):
            exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102
    return SimpleNamespace(**names, folder=folder)


def test_the_ten_lines_are_the_same_on_all_pages():
    made_up_data, ten_lines = examples(PAGE)
    assert "generate_tables" in made_up_data
    assert len([line for line in ten_lines.splitlines() if line]) == 9
    assert examples(ROOT / "README.md") == [ten_lines]
    assert examples(ROOT / "docs" / "use" / "python.md")[0] == ten_lines


def test_the_frames_are_untyped(after):
    assert after.banks["bank01"].schema["Flags"] == pl.Int64
    assert after.banks["bank01"].schema["Account"] == pl.String
    assert "Label" not in after.new.columns


def test_alerts_are_few_and_have_reasons(after):
    assert after.alerts.columns == ["MessageId", "Score", "Level", "Reasons"]
    assert after.alerts["Reasons"].null_count() == 0
    learned = after.detector.last_scoring_.learned
    assert (learned.rows, learned.alerts) == (after.new.height, after.alerts.height)


def test_epsilon_is_spent_and_said(after):
    assert after.detector.privacy_.epsilon == "1"
    assert after.detector.run_.parameters.honest_banks == 2


def test_the_saved_run_can_be_used_again_with_the_columns_that_the_page_explains(after):
    rows = re.findall(r"^\| (`\w+`.*?) \|", PAGE.read_text(), re.MULTILINE)
    run = RunFolder(after.folder / "run").require_finished()
    assert run == after.detector.run_
    with pv4fad.load(after.folder / "run") as loaded:
        table = loaded.predict(after.new)
        ledger = loaded.federation_.ledgers["bank02"]
        names = {name for store in loaded.federation_.stores.values() for name in store.keys("")}
    assert table.columns == re.findall(r"`(\w+)`", " ".join(rows))
    assert table["MessageId"].to_list() == after.new["MessageId"].to_list()
    assert table["Score"].is_between(0, 1).all()
    others = table.filter(pl.col("Alert") == 0)
    assert others["Score"].to_list() == others["LocalScore"].to_list()
    assert others["Reasons"].is_null().all()
    assert (ledger.spent, ledger.limit) == (1, 1)
    assert not [name for name in names if "vote" in name.lower()]
