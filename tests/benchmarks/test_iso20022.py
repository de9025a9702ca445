"""`pv4fad bench iso20022` compares what it reads with what it wrote."""

import json


def test_the_command_prints_and_writes_its_figures(tmp_path, command_line):
    file = tmp_path / "figures.json"
    code, printed, errors = command_line(
        "bench", "iso20022", "--transactions", 1_500, "--files", 3, "--gzip", "--workers", 0,
        "--json", file,
    )  # fmt: skip
    assert code == 0, errors
    figures = json.loads(file.read_text())
    assert figures["files"] == 3
    assert f"{figures['transactions']:,}" in printed
    assert "all rows are equal to those that were written: checked" in printed


def test_other_parsers_are_timed_beside_ours(command_line):
    small = ("--transactions", 1_000, "--files", 1, "--workers", 0, "--parsers")
    code, printed, errors = command_line("bench", "iso20022", *small)
    assert code == 0, errors
    for name in ("expat, our handlers", "lxml iterparse", "defusedxml iterparse"):
        assert f"one file, {name}: CPU s" in printed
