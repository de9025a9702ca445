"""ISO 20022 from the command line: a model trained on messages is the model of the CSV files."""

import json

import polars as pl
import pytest

from pv4fad.store.sealing import insecure_fast_scrypt_for_tests

DATA = ("--transactions", 2_000, "--banks", 3, "--anomaly-rate", 0.05, "--seed", 7)
TRAINING = ("--epsilon", "none", "--seed", 5, "--alert-share", 0.05, "--workers", 0)


@pytest.mark.slow
def test_training_and_scoring_on_messages_gives_what_the_csv_files_give(
    tmp_path, pv4fad, monkeypatch
):
    monkeypatch.setattr("pv4fad.store.sealing.usual_cost", insecure_fast_scrypt_for_tests)

    def succeed(*arguments: object) -> str:
        code, printed, errors = pv4fad(*arguments)
        assert code == 0, errors
        return printed

    csv, xml = tmp_path / "csv", tmp_path / "xml"
    succeed("generate", csv, *DATA)
    succeed("data", "convert", csv, xml, "--to", "pacs008", "--per-file", 500, "--gzip")
    assert not list(xml.rglob("swift_transaction_*.csv.*"))
    found = {}
    for data in (csv, xml):
        run, out = tmp_path / f"run-{data.name}", tmp_path / f"{data.name}.csv"
        succeed("train", data, "--out", run, *TRAINING)
        succeed("score", run, data, "--out", out, "--workers", 0)
        document = json.loads((run / "run.json").read_text())
        found[data.name] = (pl.read_csv(out), document["parameters"])
    # Without noise: the same alerts and scores, exactly, of both splits and all banks' answers.
    assert found["xml"][0].equals(found["csv"][0])
    assert found["xml"][0]["Alert"].sum() > 0
    # What was trained on messages passes the comparison with the CSV files in one place.
    succeed("verify", tmp_path / "run-xml", csv)
