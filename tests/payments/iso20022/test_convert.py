"""Claims about conversion: nothing is lost on the way to pacs.008 and back, or it is said."""

import gzip
import json
import string
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.iso_messages import IBANS, fits_schema
from tests.kit.small_tables import transactions, write_small_challenge

from pv4fad.errors import DataError, ParameterError
from pv4fad.payments.challenge import write_table
from pv4fad.payments.convert import Conversion, convert
from pv4fad.payments.iso20022.messages import is_messages
from pv4fad.payments.iso20022.writer import write_folder, write_messages
from pv4fad.payments.loading import load_partition, load_transactions
from pv4fad.payments.schema import LABEL, TRANSACTION_SCHEMA

UETR = "00000000-0000-4000-8000-000000000000"


def typed(folder: Path, **changes: object) -> pl.DataFrame:
    """The small table as it is loaded, with other values in all rows."""
    write_table(folder / "small.csv", transactions())
    frame = load_transactions(folder / "small.csv", labels_required=True).frame
    values = [pl.lit(value).cast(TRANSACTION_SCHEMA[name]) for name, value in changes.items()]
    return frame.with_columns(v.alias(n) for v, n in zip(values, changes, strict=True))


def through_messages(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    write_messages(path, frame)
    return load_transactions(path, labels_required=False).frame


def assert_same(back: pl.DataFrame, frame: pl.DataFrame) -> None:
    """In every column but Label, which messages cannot carry."""
    assert back.equals(frame.drop(LABEL))


@pytest.mark.parametrize("name", ["m.xml", "m.xml.gz"])
def test_a_table_comes_back_from_messages_as_it_was(tmp_path, name):
    frame = typed(tmp_path)
    assert_same(through_messages(tmp_path / name, frame), frame)


text = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), min_size=1).map(str.strip)
words = st.one_of(st.none(), text, text.map(lambda t: t + "\r\n\t&amp;<![CDATA[ ]]>"))
places = st.one_of(
    words,
    st.from_regex(r"(US|FR|C)/((FR/)?[0-9A-Z&<]{0,3}[ ,\t\r]{0,2}){0,4}", fullmatch=True),
)
amounts = st.one_of(
    st.integers(0, 10**18 - 128).map(float),
    st.integers(0, 10**15).map(lambda n: n / 100),
    st.integers(0, 10**13).map(lambda n: n / 10**5),
)


@settings(max_examples=150)
@given(st.data())
def test_any_text_and_any_amount_comes_back(data):
    with TemporaryDirectory() as place:
        folder = Path(place)
        frame = typed(
            folder,
            TransactionReference=data.draw(words),
            OrderingName=data.draw(words),
            OrderingStreet=data.draw(words),
            OrderingCountryCityZip=data.draw(places),
            BeneficiaryCountryCityZip=data.draw(places),
            BeneficiaryAccount=data.draw(st.text(string.ascii_letters + string.digits, min_size=1)),
            SettlementAmount=data.draw(amounts),
            UETR=data.draw(st.sampled_from([UETR, "u-1", UETR.upper()])),
        )
        # What any loaded table is: stripped, and not blank.
        write_table(folder / "a.parquet", frame)
        frame = load_transactions(folder / "a.parquet", labels_required=True).frame
        assert_same(through_messages(folder / "m.xml", frame), frame)


def test_what_is_written_fits_the_schema_of_the_message(tmp_path):
    frame = typed(tmp_path, UETR=UETR, OrderingAccount=IBANS[0], OrderingName="A < B & Söhne")
    for number in range(frame.height):
        path = tmp_path / f"{number}.xml"
        one = frame.slice(number, 1)
        write_messages(path, one)
        assert fits_schema(path.read_text(encoding="utf-8"))
        assert f"<IBAN>{IBANS[0]}</IBAN>" in path.read_text(encoding="utf-8")
    assert not fits_schema(path.read_text().replace("<ChrgBr>SHAR</ChrgBr>", ""))


def test_fractions_of_a_second_come_back_and_csv_says_that_it_drops_them(tmp_path):
    frame = typed(tmp_path, Timestamp=datetime(2026, 1, 2, 3, 4, 5, 60), SettlementDate=date.max)
    frame = frame.with_columns(SettlementDate=pl.lit(date(2026, 1, 2)))
    assert_same(through_messages(tmp_path / "m.xml", frame), frame)
    notes = convert(tmp_path / "m.xml", tmp_path / "t.csv", Conversion("csv"))
    assert "column Timestamp: fractions of a second dropped in 4 rows" in notes


def test_amounts_with_more_decimals_are_rounded_and_long_texts_written_with_a_note(tmp_path):
    frame = typed(tmp_path, SettlementAmount=0.1234567, OrderingName="N" * 141)
    notes = write_messages(tmp_path / "m.xml", frame)
    assert notes == [
        "column SettlementAmount: 4 amounts rounded to 5 decimal places",
        "column OrderingName: 4 texts are longer than the 140 characters that pacs.008 allows,"
        " and were written in full",
    ]
    back = load_transactions(tmp_path / "m.xml", labels_required=False).frame
    assert back["SettlementAmount"].to_list() == [0.12346] * 4
    assert back["OrderingName"].to_list() == ["N" * 141] * 4


def test_a_character_that_xml_cannot_hold_is_refused_and_nothing_is_left(tmp_path):
    frame = typed(tmp_path, OrderingName="A\x01B")
    write_table(tmp_path / "a.parquet", frame)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match="column OrderingName: a control character"):
        convert(tmp_path / "a.parquet", tmp_path / "m.xml", Conversion("pacs008"))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("amount", [1e18, 1e35, 1e300])
def test_an_amount_that_a_message_cannot_hold_is_refused_and_nothing_is_left(tmp_path, amount):
    write_table(tmp_path / "a.parquet", typed(tmp_path, InstructedAmount=amount))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=r"InstructedAmount: 4 rows have an amount of 10\^18"):
        convert(tmp_path / "a.parquet", tmp_path / "m.xml", Conversion("pacs008"))
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_has_files_of_the_wanted_number_and_agents_of_the_whole_payment(tmp_path):
    frame = typed(tmp_path)
    write_folder(tmp_path / "m", frame, per_file=1, compress=True)
    files = sorted((tmp_path / "m").iterdir())
    assert [file.name for file in files] == [f"00000{n}.xml.gz" for n in range(1, 5)]
    # The second leg of u1: the debtor's agent is the sender of the first.
    second = gzip.decompress(files[1].read_bytes()).decode()
    agent = "<{0}><FinInstnId><BICFI>{1}</BICFI></FinInstnId></{0}>".format
    assert agent("InstgAgt", "MIDLUS33") in second
    assert agent("DbtrAgt", "BANKFRPP") in second
    assert_same(load_transactions(tmp_path / "m", labels_required=False).frame, frame)


@pytest.mark.parametrize("first", ["csv", "parquet"])
def test_files_are_converted_and_back_with_their_labels(tmp_path, first):
    source = tmp_path / f"a.{first}"
    write_table(source, typed(tmp_path))
    rows: dict[str, int] = {"reading": 0, "writing": 0}

    def count(step: str, n: int) -> None:
        rows[step] += n

    assert convert(source, tmp_path / "m.xml", Conversion("pacs008", progress=count)) == []
    assert rows == {"reading": 4, "writing": 4}
    assert (tmp_path / "m.labels.csv").read_text().splitlines()[0] == "MessageId,Label"
    for second in ("csv", "parquet"):
        convert(tmp_path / "m.xml", tmp_path / f"b.{second}", Conversion(second))
        loaded = load_transactions(tmp_path / f"b.{second}", labels_required=True)
        assert loaded.frame.equals(load_transactions(source, labels_required=True).frame)


@pytest.mark.parametrize("to", ["csv", "parquet", "pacs008"])
def test_a_whole_challenge_folder_is_converted_and_loads_the_same(tmp_path, to):
    source = tmp_path / "source"
    write_small_challenge(source)
    (source / "scenario01" / "train" / "bank01" / "rules.toml").write_text("# the bank's own")
    convert(source, tmp_path / "target", Conversion(to, per_file=2))
    for split in ("train", "test"):
        before = load_partition(source / "scenario01" / split)
        after = load_partition(tmp_path / "target" / "scenario01" / split)
        assert after.transactions.frame.equals(before.transactions.frame)
        assert after.accounts.keys() == before.accounts.keys()
        for bank, table in before.accounts.items():
            assert after.accounts[bank].frame.equals(table.frame)
    train = tmp_path / "target" / "scenario01" / "train"
    assert (train / "bank01" / "rules.toml").is_file()
    name = json.loads((train / "partitions.json").read_text())["swift"]["data_path"]
    assert is_messages(train / "swift" / name) == (to == "pacs008")
    back = tmp_path / "back"
    convert(tmp_path / "target", back, Conversion("csv"))
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(p.relative_to(back) for p in back.rglob("*") if p.is_file())


def test_what_makes_no_sense_is_refused_before_anything_is_read(tmp_path):
    write_small_challenge(tmp_path / "c")
    write_table(tmp_path / "a.csv", transactions())
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "m.labels.csv").write_text("mine")

    def refused(
        source: str, target: str, error: type[Exception], match: str, **how: object
    ) -> None:
        with pytest.raises(error, match=match):
            convert(tmp_path / source, tmp_path / target, Conversion(**how))

    refused("a.csv", "there.csv", DataError, "already exists", to="csv")
    refused("a.csv", "m.xml", DataError, "m.labels.csv: already exists", to="pacs008")
    refused("a.csv", "b.parquet", ParameterError, "has to end in .csv", to="csv")
    refused("a.csv", "b.csv", ParameterError, "name an .xml", to="pacs008")
    refused("a.csv", "b", ParameterError, "--per-file 0", to="pacs008", per_file=0)
    refused("no.csv", "b.csv", DataError, "not found", to="csv")
    refused("c", "c/new", ParameterError, "lies inside of", to="csv")
    refused("c", "d", ParameterError, "--labels", to="csv", labels=tmp_path / "m.labels.csv")
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_the_command_converts_says_what_it_drops_and_refuses_in_one_line(tmp_path, command_line):
    source = tmp_path / "a.csv"
    write_table(source, transactions().with_columns(Colour=pl.lit("red")))
    call = ("data", "convert", source, tmp_path / "m.xml.gz", "--to", "pacs008")
    code, printed, _ = command_line(*call)
    assert code == 0
    assert "extra columns ignored: Colour" in printed
    assert f"{tmp_path / 'm.xml.gz'}: 4 transactions" in printed
    code, _, errors = command_line(*call)
    assert code == 2
    assert (
        errors.splitlines()[-1]
        == f"error: {tmp_path / 'm.xml.gz'}: already exists; choose another name"
    )
