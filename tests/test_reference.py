"""The reference of the public names is what their docstrings say."""

import runpy
from pathlib import Path

import pv4fad
from pv4fad import estimator

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "reference.py"))


def test_the_page_is_what_make_docs_writes():
    page = (ROOT / "docs" / "use" / "reference.md").read_text(encoding="utf-8")
    assert TOOL["reference"]() == page


def test_every_public_name_is_there_with_a_docstring():
    listed = {heading for heading, _, _ in TOOL["PUBLIC"]}
    assert {f"pv4fad.{name}" for name in pv4fad.__all__} <= listed
    assert {f"pv4fad.estimator.{name}" for name in estimator.__all__} <= listed
    for heading, found, members in TOOL["PUBLIC"]:
        assert found.__doc__, heading
        for name in members:
            assert getattr(found, name).__doc__, f"{heading}.{name}"
