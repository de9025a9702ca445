"""A small, valid challenge folder to break in tests: every cell is text, as in a CSV file."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from pv4fad.payments.challenge import write_partition, write_scenarios
from pv4fad.payments.schema import ACCOUNT_COLUMNS, TRANSACTION_COLUMNS

TRANSACTION_NAMES = [column.name for column in TRANSACTION_COLUMNS]
ACCOUNT_NAMES = [column.name for column in ACCOUNT_COLUMNS]

# (UETR, time, sender, receiver, ordering account, beneficiary account, label): a payment in two
# legs by way of MIDLUS33, which keeps no accounts, and two payments in one leg.
_LEGS = [
    ("u1", "2022-01-05 08:17:00", "BANKFRPP", "MIDLUS33", "FR01", "DE02", "0"),
    ("u1", "2022-01-05 09:20:00", "MIDLUS33", "BANKDEFF", "FR01", "DE02", "1"),
    ("u2", "2022-01-06 10:00:00", "BANKFRPP", "BANKDEFF", "FR02", "DE01", "0"),
    ("u3", "2022-01-07 11:30:00", "BANKDEFF", "BANKFRPP", "DE01", "ABSENT", "0"),
]


def transactions() -> pl.DataFrame:
    """Four messages of three payments."""
    rows = [
        {
            "MessageId": f"TR0000000{number}",
            "Timestamp": time,
            "UETR": uetr,
            "Sender": sender,
            "Receiver": receiver,
            "TransactionReference": "PETX22-ABCDE-1234",
            "OrderingAccount": ordering,
            "OrderingName": "A NAME" if number != 2 else None,
            "OrderingStreet": "1 A STREET",
            "OrderingCountryCityZip": "FR/42859 VILLE",
            "BeneficiaryAccount": beneficiary,
            "BeneficiaryName": "B NAME",
            "BeneficiaryStreet": "2 B STREET",
            "BeneficiaryCountryCityZip": "US/TOWN, DC 58442",
            "SettlementDate": time[2:10].replace("-", ""),
            "SettlementCurrency": "EUR",
            "SettlementAmount": f"{100 - number}.25",
            "InstructedCurrency": "USD",
            "InstructedAmount": "100",
            "Label": label,
        }
        for number, (uetr, time, sender, receiver, ordering, beneficiary, label) in enumerate(_LEGS)
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(TRANSACTION_NAMES, pl.String))


def accounts(bank: str, flags: Mapping[str, str]) -> pl.DataFrame:
    """The accounts of a bank, given their flags."""
    rows = [
        (bank, account, "A NAME", "1 A STREET", "FR/1 V", flag) for account, flag in flags.items()
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(ACCOUNT_NAMES, pl.String), orient="row")


def write_small_challenge(root: Path) -> Path:
    """One scenario with a train and a test split and two banks; returns the train folder."""
    write_scenarios(root, ["scenario01"])
    banks = {
        "bank01": accounts("BANKFRPP", {"FR01": "00", "FR02": "00"}),
        "bank02": accounts("BANKDEFF", {"DE01": "00", "DE02": "7"}),
    }
    write_partition(root / "scenario01" / "train", transactions(), banks)
    write_partition(root / "scenario01" / "test", transactions().drop("Label"), banks)
    return root / "scenario01" / "train"
