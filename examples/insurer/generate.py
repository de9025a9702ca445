"""A made-up insurer with two hospitals and two laboratories: `generate.py DIR`.

    DIR/schema.toml
    DIR/{train,test}/lead/rows.csv              the insurer's claims; the later half is the test
    DIR/{train,test}/HOLDER/records.csv         of a hospital its patients, of a laboratory its
                                                orders; each with columns of its own
    DIR/{train,test}/HOLDER/rules.toml          the holder's own rules

Every claim is about a patient of a hospital and an order of a laboratory.  There are two causes of
fraud.  Some claims are padded: the insurer sees unusual amounts, days and tests.  And where the
patient's or the order's record is disputed or missing, a claim is often false, and looks much like
any other.  Some hospitals and laboratories take no part, and some claims do not name theirs.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

HERE = Path(__file__).parent
SCHEMA = HERE / "schema.toml"
HOSPITALS, LABORATORIES = ("north", "south"), ("alpha", "beta")
RULES = {name: HERE / "rules" / f"{name}.toml" for name in (*HOSPITALS, *LABORATORIES)}

CLASSES = ("ordinary", "amended", "disputed", "missing")
SHARES = (0.92, 0.05, 0.015, 0.015)  # of records of each class
_FALSE = np.array([0.0, 0.01, 0.3, 0.4])  # a claim is false, by the class of a record
_PADDED = 0.012  # of all claims
_OUTSIDE, _UNNAMED = 0.08, 0.06  # holder takes no part; holder is not named
_BEGIN, _DAYS = datetime(2026, 1, 1), 240

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """The tables of all parties."""

    train: pl.DataFrame
    test: pl.DataFrame
    records: dict[str, pl.DataFrame]  # by holder


def generate(claims: int = 12_000, seed: int = 1) -> World:
    """So many claims, half of them for training."""
    rng = np.random.default_rng(seed)
    patients, orders = claims // 4, claims
    hospital = _holders(patients, rng)
    laboratory = _holders(orders, rng)
    patient_class, order_class = _classes(patients, rng), _classes(orders, rng)

    patient = rng.integers(patients, size=claims)
    # Most orders are claimed once; of some a second claim comes later.
    order = np.arange(claims)
    again = rng.random(claims) < 0.08
    order[again] = rng.integers(orders, size=int(again.sum()))

    false = rng.random(claims) < _FALSE[patient_class[patient]]
    false |= rng.random(claims) < _FALSE[order_class[order]]
    padded = rng.random(claims) < _PADDED
    unusual = 1.1 * padded + 0.25 * false
    minutes = np.sort(rng.choice(_DAYS * 24 * 60, claims, replace=False))
    rows = pl.DataFrame(
        {
            "ClaimId": [f"C{number:06d}" for number in range(claims)],
            "Submitted": minutes,
            "Fraud": (false | padded).astype(np.int8),
            "Amount": np.exp(rng.normal(6.5 + unusual, 0.9)).round(2),
            "Days": rng.poisson(np.exp(1.0 + 0.6 * unusual)),
            "Tests": rng.poisson(np.exp(1.2 + 0.5 * unusual)),
            "Treatment": rng.choice(["ward", "surgery", "outpatient", "emergency"], claims),
            "Channel": np.where(
                rng.random(claims) < 0.4 + 0.3 * padded,
                "online",
                rng.choice(["desk", "post"], claims),
            ),
            "Hospital": _named(hospital[patient], (*HOSPITALS, "abroad"), rng),
            "PatientId": 100_000 + patient,
            "Laboratory": _named(laboratory[order], (*LABORATORIES, "elsewhere"), rng),
            "OrderId": 100_000 + order,  # the same numbers as patients: namespaces tell them apart
        }
    ).with_columns(
        Submitted=pl.lit(_BEGIN) + pl.duration(minutes="Submitted"),
        # Bills are not always complete.
        Days=pl.when(pl.Series(rng.random(claims) > 0.03)).then("Days"),
        Treatment=pl.when(pl.Series(rng.random(claims) > 0.02)).then("Treatment"),
    )
    records = {
        name: table(np.flatnonzero(who == position), classes[who == position], rng)
        for who, classes, holders in (
            (hospital, patient_class, {"north": _north, "south": _south}),
            (laboratory, order_class, {"alpha": _alpha, "beta": _beta}),
        )
        for position, (name, table) in enumerate(holders.items())
    }
    return World(rows.head(claims // 2), rows.tail(claims - claims // 2), records)


def _holders(n: int, rng: np.random.Generator) -> Integers:
    """0 and 1 take part, 2 does not."""
    inside = (1 - _OUTSIDE) / 2
    return rng.choice(3, n, p=[inside, inside, _OUTSIDE])


def _classes(n: int, rng: np.random.Generator) -> Integers:
    return rng.choice(len(CLASSES), n, p=SHARES)


def _named(holder: Integers, names: tuple[str, ...], rng: np.random.Generator) -> pl.Series:
    told = pl.Series(np.array(names)[holder])
    return told.set(pl.Series(rng.random(len(holder)) < _UNNAMED), None)


def _record(kind: str, number: Integers, **columns: object) -> pl.DataFrame:
    return pl.DataFrame({"Kind": [kind] * len(number), "Number": 100_000 + number, **columns})


def _dates(present: NDArray[np.bool_], rng: np.random.Generator) -> pl.Series:
    days = pl.Series(rng.integers(_DAYS, size=len(present)))
    dates = pl.select(pl.lit(_BEGIN).dt.date() + pl.duration(days=days)).to_series()
    return dates.set(pl.Series(~present), None)


def _north(number: Integers, classes: Integers, rng: np.random.Generator) -> pl.DataFrame:
    identity = np.where(rng.random(len(number)) < 0.8, "confirmed", "not checked")
    return _record(
        "patient",
        number,
        Admitted=_dates(classes != 3, rng),
        Identity=np.where(classes == 2, "disputed", identity),
        Amendments=np.where(classes == 1, rng.integers(1, 4, size=len(number)), 0),
    )


def _south(number: Integers, classes: Integers, rng: np.random.Generator) -> pl.DataFrame:
    n = len(number)
    nights = pl.Series(rng.poisson(3, size=n)).set(pl.Series(classes == 3), None)
    low, changed = rng.integers(1, 3, size=n), rng.choice(["amended", "reopened"], n)
    return _record(
        "patient",
        number,
        Nights=nights,
        IdentityMark=np.where(classes == 2, low, rng.integers(3, 6, size=n)),
        Status=np.where(classes == 1, changed, np.where(classes == 2, "open", "closed")),
    )


def _alpha(number: Integers, classes: Integers, rng: np.random.Generator) -> pl.DataFrame:
    n = len(number)
    return _record(
        "order",
        number,
        Sample=np.where(classes == 3, rng.choice(["missing", "empty tube"], n), "received"),
        Doctor=np.where(classes == 2, "denies", "confirms"),
        Corrections=np.where(classes == 1, rng.integers(1, 3, size=n), 0),
    )


def _beta(number: Integers, classes: Integers, rng: np.random.Generator) -> pl.DataFrame:
    n = len(number)
    fit = np.where(classes == 2, rng.uniform(0, 0.29, n), rng.uniform(0.3, 1, n)).round(3)
    return _record(
        "order",
        number,
        Received=_dates(classes != 3, rng),
        OrderFit=fit,
        Version=np.where(classes == 1, rng.integers(2, 5, size=n), 1),
    )


def write(world: World, folder: Path) -> None:
    """As a folder for `pv4fad train`, with the schema and each holder's rules."""
    for split, rows in (("train", world.train), ("test", world.test)):
        (folder / split / "lead").mkdir(parents=True)
        rows.write_csv(folder / split / "lead" / "rows.csv", datetime_format="%Y-%m-%d %H:%M:%S")
        for holder, records in world.records.items():
            (folder / split / holder).mkdir()
            records.write_csv(folder / split / holder / "records.csv")
            shutil.copyfile(RULES[holder], folder / split / holder / "rules.toml")
    shutil.copyfile(SCHEMA, folder / "schema.toml")


def main() -> None:
    parser = argparse.ArgumentParser(description="An insurer's claims, hospitals, laboratories.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="new folder")
    parser.add_argument("--claims", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.folder.exists():
        parser.error(f"{given.folder} exists already")
    write(generate(given.claims, given.seed), given.folder)


if __name__ == "__main__":
    main()
