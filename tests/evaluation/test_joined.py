"""The detector with all data in one place uses what the banks know."""

import polars as pl
from tests.evaluation.scored_run import write_data

from pv4fad.data.generate import Difficulty, Settings, generate_tables
from pv4fad.evaluation.joined import joined_scores
from pv4fad.evaluation.measures import average_precision


def test_without_the_flags_everything_joined_finds_less(tmp_path):
    """In `challenge` data a flag means an anomaly; here all banks forget their flags."""
    settings = Settings(2000, 3, Difficulty.CHALLENGE, 4, anomaly_rate=0.05, accounts=300)
    tables = generate_tables(settings)
    labels = tables.test.transactions["Label"].to_numpy()
    found = []
    for name in ("flags", "forgotten"):
        data = write_data(tmp_path / name, tables)
        if name == "forgotten":
            for file in data.glob("*/*/bank*/*.csv"):
                records = pl.read_csv(file, infer_schema=False)
                records.with_columns(Flags=pl.lit("00")).write_csv(file)
        scenario = data / "scenario01"
        scores = joined_scores(scenario / "train", scenario / "test")
        found.append(average_precision(labels, scores))
    assert found[0] > found[1] + 0.02, found
