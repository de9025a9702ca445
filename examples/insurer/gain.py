"""What hospitals and laboratories add to an insurer's own claims: `gain.py`, a table.

For each made-up world: train and predict privately, with all parties on this machine, and compare
LocalScore, what the insurer finds alone, with Score, what it finds with the holders' answers.
With --shuffled the records of each holder are about the wrong people and orders: a control, in
which there is nothing to gain.
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl
from generate import RULES, SCHEMA, World, generate

import pv4fad
from pv4fad.evaluation.measures import at_budget, average_precision

SHARE = 0.03
_LINE = "{:>5}  {:>7}  {:>6}  {:>8}  {:>12}  {:>8}  {:>12}"


def shuffled(world: World, seed: int) -> dict[str, pl.DataFrame]:
    """The records of each holder, with their numbers dealt out anew."""
    rng = np.random.default_rng(seed)
    return {
        name: records.with_columns(Number=pl.Series(rng.permutation(records["Number"].to_numpy())))
        for name, records in world.records.items()
    }


def gain(claims: int, seed: int, epsilon: str, *, control: bool) -> tuple[object, ...]:
    """A line of the table: frauds to find, and for each score average precision and recall."""
    world = generate(claims, seed)
    records = shuffled(world, seed) if control else world.records
    test = world.test.drop("Fraud")
    with pv4fad.simulate(records, schema=SCHEMA, rules=RULES) as federation:
        detector = pv4fad.Detector(epsilon=epsilon, alert_share=SHARE, seed=seed)
        made = detector.fit(world.train, federation).predict(test)
    frauds = world.test["Fraud"].to_numpy()
    measured = [
        measure
        for name in ("LocalScore", "Score")
        for measure in (
            average_precision(frauds, made[name].to_numpy()),
            at_budget(frauds, made[name].to_numpy(), SHARE).recall,
        )
    ]
    return (seed, int(frauds.sum()), int(made["Alert"].sum()), *(f"{one:.2f}" for one in measured))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--claims", type=int, default=12_000)
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--shuffled", action="store_true", help="records that say nothing")
    given = parser.parse_args()
    print(f"{given.claims:,} claims, half of them for training; ε = {given.epsilon}")
    print(_LINE.format("", "", "", "claims", "", "with", ""))
    print(_LINE.format("", "", "", "alone:", "recall at", "records:", "recall at"))
    print(_LINE.format("world", "frauds", "alerts", "AP", f"{SHARE:.0%}", "AP", f"{SHARE:.0%}"))
    for seed in range(1, given.worlds + 1):
        line = gain(given.claims, seed, given.epsilon, control=given.shuffled)
        print(_LINE.format(*line), flush=True)


if __name__ == "__main__":
    main()
