"""An insurer's claims and the records of two hospitals: tables that are not payments, and small."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl

from pv4fad.schema import Schema, schema_of

N_CLAIMS, N_NEW = 400, 60
HOSPITALS = ("north", "south")
PATIENTS, DOCTORS = 50, 10  # of each hospital
CLASSES = ("ordinary", "watch", "blocked")


def claims_schema() -> Schema:
    return schema_of(
        {
            "name": "claims",
            "rows": {
                "id": "ClaimId",
                "time": "Submitted",
                "label": "Fraud",
                "numbers": ["Amount"],
                "categories": ["Kind"],
            },
            "sides": {
                "patient": {"holder": "Hospital", "id": "PatientId"},
                "doctor": {"holder": "Hospital", "id": "DoctorId"},
            },
            "record": {"id": "Person", "classes": list(CLASSES)},
        }
    )


def hospital_records() -> dict[str, pl.DataFrame]:
    """Every seventh person is watched or blocked."""
    return {name: _records(name) for name in HOSPITALS}


def _records(hospital: str) -> pl.DataFrame:
    people = [*_people(hospital, "P", PATIENTS), *_people(hospital, "D", DOCTORS)]
    numbers = np.arange(len(people))
    classes = np.where(numbers % 7 == 3, 1 + numbers % 2, 0)
    return pl.DataFrame(
        {
            "Person": people,
            "Class": [CLASSES[number] for number in classes],
            "Rating": (classes * 4 + numbers % 3).tolist(),
            "Name": [f"Name of {person}" for person in people],
        }
    )


def _people(hospital: str, kind: str, n: int) -> list[str]:
    return [f"{hospital[0].upper()}{kind}{number:03d}" for number in range(n)]


def claims() -> pl.DataFrame:
    """Labelled."""
    return _rows().head(N_CLAIMS)


def new_claims() -> pl.DataFrame:
    """Later than the others, and without labels."""
    return _rows().tail(N_NEW).drop("Fraud")


def _rows() -> pl.DataFrame:
    n = N_CLAIMS + N_NEW
    rng = np.random.default_rng(7)
    hospital = rng.integers(2, size=n)
    patient, doctor = rng.integers(PATIENTS, size=n), rng.integers(DOCTORS, size=n)
    known = (patient % 7 == 3) & (rng.random(n) < 0.5)
    fraud = known | (rng.random(n) < 0.02)
    amount = np.exp(rng.normal(5 + fraud, 1.0))
    begin = datetime(2026, 1, 1)
    return pl.DataFrame(
        {
            "ClaimId": [f"C{number:05d}" for number in range(n)],
            "Submitted": [begin + timedelta(hours=3 * number) for number in range(n)],
            "Fraud": fraud.astype(np.int64),
            "Amount": amount.round(2),
            "Kind": rng.choice(["ward", "surgery", "laboratory"], n),
            "Hospital": [HOSPITALS[number] for number in hospital],
            "PatientId": [
                _people(HOSPITALS[h], "P", PATIENTS)[p]
                for h, p in zip(hospital, patient, strict=True)
            ],
            "DoctorId": [
                _people(HOSPITALS[h], "D", DOCTORS)[d]
                for h, d in zip(hospital, doctor, strict=True)
            ],
        }
    )
