"""A bank's own rules: its columns decide classes where its file is read, and stay there."""

from pathlib import Path

import polars as pl
import pytest
from tests.kit.small_federation import PASSPHRASE, telling_tables

from pv4fad.errors import DataError, ParameterError
from pv4fad.lead.data import RULES_FILE, bank_records, load_holder, load_split
from pv4fad.parties.bank import Bank
from pv4fad.payments.challenge import BANK_FILE, write_partition, write_scenarios, write_table
from pv4fad.payments.schema import SCHEMA
from pv4fad.run.folder import RUN_FILE, RunFolder
from pv4fad.schema import read_schema
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase, insecure_fast_scrypt_for_tests

RULES = """
[[rules]]
class = "frozen"
column = "WhimRating"
at_least = 7

[[rules]]
class = "under monitoring"
all = [
  { column = "WhimRating", above = 3, below = 7 },
  { column = "WhimRegion", in = ["quxnorth", "quxwest"] },
]

[[rules]]
class = "recently opened"
column = "WhimOpened"
missing = true

[[rules]]
class = "closed"
column = "Flags"
in = ["01", "06"]
"""
RATED = Path(__file__).parents[2] / "examples" / "payments" / "schema.toml"
PRIVATE = (b"WhimRating", b"WhimRegion", b"WhimOpened", b"quxnorth", b"quxwest", b"quxsouth")
REGIONS = ("quxnorth", "quxsouth", "quxwest")


def own_columns(n: int) -> dict[str, list[object]]:
    """Ratings 0 to 9, some missing; three regions; some dates of opening missing."""
    return {
        "WhimRating": [None if i % 11 == 0 else i % 10 for i in range(n)],
        "WhimRegion": [REGIONS[i % 3] for i in range(n)],
        "WhimOpened": [None if i % 5 == 0 else "2020-02-03" for i in range(n)],
    }


def expected_class(rating: int | None, region: str, opened: str | None, flag: str) -> str:
    """By a plain reading of RULES."""
    if rating is not None and rating >= 7:
        return "frozen"
    if rating is not None and 3 < rating < 7 and region in ("quxnorth", "quxwest"):
        return "under monitoring"
    if opened is None:
        return "recently opened"
    return "closed" if flag in ("01", "06") else "ordinary"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """bank01 has columns and rules of its own, bank02 goes by the flags."""
    tables, root = telling_tables(), tmp_path / "data"
    accounts = {bank: tables.accounts[bank] for bank in ("bank01", "bank02")}
    for split in ("train", "test"):
        folder = root / "scenario01" / split
        write_partition(folder, getattr(tables, split).transactions, accounts)
        path = folder / "bank01" / BANK_FILE
        file = pl.read_csv(path, infer_schema=False)
        write_table(path, file.with_columns(pl.DataFrame(own_columns(file.height))))
        path.with_name(RULES_FILE).write_text(RULES)
    write_scenarios(root, ["scenario01"])
    return root


def account_file(data: Path) -> Path:
    return data / "scenario01" / "train" / "bank01" / BANK_FILE


def test_the_rules_decide_where_the_file_is_read_and_the_columns_stay_there(data):
    path = account_file(data)
    flags = pl.read_csv(path, infer_schema=False)["Flags"]
    records = load_holder(SCHEMA, path, "bank01")
    assert records.columns == ["Holder", "Id", "Class"]
    own = own_columns(len(flags)).values()
    expected = [expected_class(*row) for row in zip(*own, flags, strict=True)]
    assert records["Class"].cast(pl.String).to_list() == expected
    assert set(expected) == {
        "frozen", "under monitoring", "recently opened", "closed", "ordinary",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ('"frozen"', '"on ice"', ParameterError, "rules.toml: rule 1.*'on ice'.*no such class"),
        ("WhimOpened", "Opened", DataError, "Opened"),
        (
            '"WhimRating"\nat',
            '"WhimRegion"\nat',
            DataError,
            r"bank_dataset.csv: rule 1.*WhimRegion",
        ),
        ("missing = true", "missing = 1", ParameterError, "rules.toml: rule 3"),
    ],
)
def test_a_rule_that_does_not_fit_is_named(data, old, new, error, message):
    path = account_file(data)
    path.with_name(RULES_FILE).write_text(RULES.replace(old, new, 1))
    with pytest.raises(error, match=message):
        load_holder(SCHEMA, path, "bank01")


def test_each_bank_with_wrong_rules_is_named(data):
    split = account_file(data).parents[1]
    for bank in ("bank01", "bank02"):
        (split / bank / RULES_FILE).write_text(RULES.replace('"frozen"', f'"on ice at {bank}"'))
    with pytest.raises(ParameterError) as refusal:
        load_split(SCHEMA, split)
    first, second = str(refusal.value).splitlines()
    assert first.startswith(f"{split}/bank01/rules.toml: rule 1 (class 'on ice at bank01')")
    assert second.startswith(f"{split}/bank02/rules.toml: rule 1 (class 'on ice at bank02')")


def test_what_a_bank_brings_depends_on_the_classes_alone(data):
    """Other columns and other rules that give the same classes change nothing at all."""
    path = account_file(data)
    records = load_holder(SCHEMA, path, "bank01")
    before = bank_records(SCHEMA, records)
    number = {name: n for n, name in enumerate(SCHEMA.record.classes)}
    numbers = [number[name] for name in records["Class"]]
    file = pl.read_csv(path, infer_schema=False).drop(own_columns(1))
    write_table(path, file.with_columns(Another=pl.Series(numbers)))
    path.with_name(RULES_FILE).write_text(
        "".join(
            f'[[rules]]\nclass = "{name}"\ncolumn = "Another"\nis = {n}\n'
            for name, n in number.items()
        )
    )
    after = bank_records(SCHEMA, load_holder(SCHEMA, path, "bank01"))
    assert after.classes.tolist() == before.classes.tolist()
    assert (after.qualified_ids, after.bare_ids) == (before.qualified_ids, before.bare_ids)
    assert after.fingerprint == before.fingerprint


def test_a_schema_of_payments_with_another_class_gives_all_others_as_before(data):
    path = account_file(data).parents[1] / "bank02" / BANK_FILE
    schema = read_schema(RATED)
    assert schema.record.classes == (*SCHEMA.record.classes, "high risk")
    assert set(schema.record.kind_names) == {*SCHEMA.record.kind_names, "rated"}
    for part in ("rows", "sides", "words"):
        assert getattr(schema, part) == getattr(SCHEMA, part)
    before, after = (load_holder(one, path, "bank02") for one in (SCHEMA, schema))
    names = [frame["Class"].cast(pl.String) for frame in (before, after)]
    assert names[0].to_list() == names[1].to_list()
    assert names[0].n_unique() > 5


def test_a_run_equals_the_trusted_third_party_and_own_columns_never_leave_the_bank(
    data, tmp_path, pv4fad, monkeypatch
):
    """The bank splits the flags further: what it rates highest has a class that no flag has."""
    for split in ("train", "test"):
        file = data / "scenario01" / split / "bank01" / RULES_FILE
        file.write_text(RULES.replace('"frozen"', '"high risk"'))
    monkeypatch.setattr("pv4fad.store.sealing.usual_cost", insecure_fast_scrypt_for_tests)
    handle, sent = Bank.handle, []

    def noting(bank: Bank, message: bytes) -> list[bytes]:
        replies = handle(bank, message)
        sent.extend(replies)
        return replies

    monkeypatch.setattr(Bank, "handle", noting)
    run, out = tmp_path / "run", tmp_path / "predictions.csv"
    options = ("--alert-share", 0.05, "--seed", 33, "--workers", 0)
    code, _, err = pv4fad(
        "train", data, "--schema", RATED, "--out", run, "--epsilon", "none", *options
    )
    assert code == 0, err
    code, _, err = pv4fad("score", run, data, "--out", out, "--workers", 0)
    assert code == 0, err
    code, text, err = pv4fad("verify", run, data, "--predictions", out)
    assert code == 0, err
    assert "100 %" in text
    assert RunFolder(run).require_finished().data_schema == read_schema(RATED)
    kept = [(run / RUN_FILE).read_bytes(), out.read_bytes()]
    for party in ("payment-network", "aggregator", "bank02"):
        with DiskStore.open(run / party, Passphrase(PASSPHRASE)) as store:
            kept += [store.get(name) or b"" for name in store.keys("")]
    assert len(sent) > 5
    assert len(kept) > 20
    # What is looked for would be found: the run's name is everywhere.
    run_id = RunFolder(run).require_finished().run_id.encode()
    assert all(run_id in message for message in sent)
    for text_of_others in (*sent, *kept):
        assert not [word for word in PRIVATE if word in text_of_others]
