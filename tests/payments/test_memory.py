"""Evidence for the memory bound: five million transactions load in less than 6 GiB."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from tests.kit.small_tables import transactions

N_ROWS = 5_000_000
N_ACCOUNTS = 300_000
LIMIT_BYTES = 6 * 2**30
LOAD = """
import resource
import sys
from pathlib import Path
from pv4fad.payments.loading import load_transactions
n_rows = load_transactions(Path(sys.argv[1]), labels_required=True).frame.height
print(n_rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _chunk(start: int, n_rows: int) -> pl.DataFrame:
    """Valid rows with as many different ids, accounts, names and addresses as in real data."""
    number = pl.int_range(start, start + n_rows).cast(pl.String)
    account = (pl.int_range(start, start + n_rows) * 7919 % N_ACCOUNTS).cast(pl.String)
    text = [
        f"{side}{column}"
        for side in ("Ordering", "Beneficiary")
        for column in ("Account", "Name", "Street", "CountryCityZip")
    ]
    rows = pl.concat([transactions().head(1)] * n_rows)
    return rows.with_columns(
        MessageId="TR" + number.str.zfill(8),
        UETR=pl.lit("00000000-0000-4000-8000-0000") + number.str.zfill(8),
        **{name: pl.concat_str(pl.lit(f"{name.upper()} "), account) for name in text},
    )


@pytest.mark.slow
def test_five_million_rows_load_in_less_than_6_gib(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    chunk = 250_000
    with path.open("wb") as file:
        for start in range(0, N_ROWS, chunk):
            _chunk(start, chunk).write_csv(file, include_header=start == 0)
    run = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, check=True
    )
    path.unlink()
    n_rows, peak = map(int, run.stdout.split())
    assert n_rows == N_ROWS
    # macOS reports bytes, Linux KiB.
    assert peak * (1 if sys.platform == "darwin" else 1024) < LIMIT_BYTES
