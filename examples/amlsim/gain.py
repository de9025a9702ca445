"""What banks' records add to AMLSim's payments: prints the table of docs/use/amlsim.md.

    python examples/amlsim/gain.py ../shared/data/amlsim_20k_cycle200 --repeats 5

With and without amounts, each repeat is a training with noise of its own, real keys and encryption.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
from adapter import BEGIN, read_amlsim, records, rows

import pv4fad
from pv4fad.evaluation.measures import at_budget, average_precision, average_precision_interval

ALERT_SHARE = 0.03
SIDES = ("Sender", "Receiver")
SCHEMA = Path(__file__).with_name("schema.toml")


def schema(*, amounts: bool) -> dict:
    """The schema of this folder, or the same without its only number."""
    content = tomllib.loads(SCHEMA.read_text(encoding="utf-8"))
    if not amounts:
        content["rows"]["numbers"] = []
    return content


def scores(source: Path, epsilon: str, seed: int, *, amounts: bool) -> dict[str, pl.Series]:
    """The labels of the test rows, and scores without banks, with the banks' old records (from
    before training) and with their present ones."""
    accounts, transactions = read_amlsim(source)
    train, test = (rows(accounts, transactions, split) for split in ("train", "test"))
    new = test.drop("Laundering")
    old, present = (records(accounts, split) for split in ("train", "test"))
    with pv4fad.simulate(old, schema=schema(amounts=amounts)) as federation:
        detector = pv4fad.Detector(epsilon=epsilon, alert_share=ALERT_SHARE, seed=seed)
        detector.fit(train, federation)
        before = detector.predict(new)
        federation.refresh(present)
        after = detector.predict(new)
    return {
        "label": test["Laundering"],
        "payments alone": after["LocalScore"],
        "old records": before["Score"],
        "present records": after["Score"],
        "alerts": after["Alert"],
    }


def facts(source: Path) -> None:
    """What is in the tables: amounts, and how often banks have reported an account before."""
    accounts, transactions = read_amlsim(source)
    for split in ("train", "test"):
        table = rows(accounts, transactions, split)
        known = {
            when: pl.concat(records(accounts, when).values()).drop_nulls("Reported")["Account"]
            for when in ("train", split)
        }
        print(f"{split}: {table.height} payments, {table['Laundering'].sum()} of them laundering")
        for label, name in ((1, "laundering"), (0, "others")):
            some = table.filter(Laundering=label)
            amounts = f"{some['Amount'].min():.2f} to {some['Amount'].max():.2f}"
            small = some.filter(pl.col("Amount") < 100).height
            print(f"  {name}: amounts {amounts}, {small} of {some.height} below 100")
            for when, ids in known.items():
                shares = [some[side].is_in(ids.implode()).mean() for side in SIDES]
                found = ", ".join(
                    f"{side} {share:.1%}" for side, share in zip(SIDES, shares, strict=True)
                )
                print(f"    reported by step {BEGIN[when]} ({len(ids)} accounts): {found}")
    print(flush=True)


def control(source: Path) -> None:
    """Payments alone, without amounts, if the payment network had labels from the first step on.

    Only LocalScore is looked at, in which no bank has a part.
    """
    accounts, transactions = read_amlsim(source)
    train = rows(accounts, transactions, "train", begin=1)
    test = rows(accounts, transactions, "test")
    with pv4fad.simulate(records(accounts, "train"), schema=schema(amounts=False)) as federation:
        detector = pv4fad.Detector(epsilon="none", alert_share=ALERT_SHARE, seed=1)
        local = detector.fit(train, federation).predict(test.drop("Laundering"))["LocalScore"]
    label = test["Laundering"]
    print("without amounts, labels from step 1 on, one training")
    print(f"  payments alone: average precision {average_precision(label, local):.3f}")
    recall = at_budget(label, local, ALERT_SHARE).recall
    print(f"  payments alone: recall at {ALERT_SHARE:.0%} {recall:.3f}", flush=True)


def line(name: str, values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{name:44} {np.mean(values):.3f}  ({low:.3f} to {high:.3f})"


def compare(source: Path, epsilon: str, repeats: int, *, amounts: bool) -> None:
    begin = time.monotonic()
    runs = [scores(source, epsilon, seed, amounts=amounts) for seed in range(1, repeats + 1)]
    kind = "with" if amounts else "without"
    print(f"{kind} amounts, epsilon {epsilon}, {repeats} trainings, mean (least to most)")
    for name in ("payments alone", "old records", "present records"):
        precision = [average_precision(run["label"], run[name]) for run in runs]
        recall = [at_budget(run["label"], run[name], ALERT_SHARE).recall for run in runs]
        print(line(f"  {name}: average precision", precision))
        print(line(f"  {name}: recall at {ALERT_SHARE:.0%}", recall))
    for name in ("payments alone", "present records"):
        found = average_precision_interval(runs[0]["label"], runs[0][name], seed=1)
        bounds = f"{found.low:.3f} to {found.high:.3f}"
        print(f"  {name}: first training {found.value:.3f}, bootstrap {bounds}")
    alerts = [int(run["alerts"].sum()) for run in runs]
    print(f"  alerts {min(alerts)} to {max(alerts)} of {len(runs[0]['label'])} payments")
    print(f"  {(time.monotonic() - begin) / repeats:.0f} s for each training\n", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epsilon", default="1")
    arguments = parser.parse_args()
    facts(arguments.source)
    for with_amounts in (True, False):
        compare(arguments.source, arguments.epsilon, arguments.repeats, amounts=with_amounts)
    control(arguments.source)
