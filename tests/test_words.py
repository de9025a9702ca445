"""Outputs speak of a world in its own words, and words change nothing else."""

import pytest

from pv4fad.errors import ParameterError
from pv4fad.payments.features import FEATURE_MEANINGS
from pv4fad.payments.features.phrases import phrase
from pv4fad.payments.schema import SCHEMA
from pv4fad.schema import Schema, schema_of
from pv4fad.tables.phrases import phrase as row_phrase
from pv4fad.words import Words

CLAIMS = {
    "name": "claims",
    "rows": {"id": "Id", "time": "Time", "numbers": ["Amount"], "categories": ["Kind"]},
    "sides": {"patient": {"id": "Patient"}, "doctor": {"id": "Doctor"}},
    "record": {"classes": ["ordinary", "watch"]},
}
WORDS = {"lead": "insurer", "holder": "laboratory", "row": "claim", "record": "person"}


def test_a_sentence_has_the_words_of_the_schema_in_every_form():
    words = Words(**WORDS, plurals={"person": "people"})
    sentence = "{A_lead} asks {holders} about {n:,} {records} of {a_row}: {Rows}, {a_lead}"
    said = "An insurer asks laboratories about 1,000 people of a claim: Claims, an insurer"
    assert words(sentence, n=1000) == said


def test_values_of_a_sentence_are_left_as_they_are():
    assert Words()("{holder} {name}", name="{lead} {nothing}") == "holder {lead} {nothing}"


def test_a_text_of_a_file_gets_words_and_keeps_every_other_brace():
    text = "{records}, {Lead}: {0} {nothing} {records!r} {} }{ {rows:>9}"
    said = "accounts, Payment network: {0} {nothing} {records!r} {} }{ {rows:>9}"
    assert SCHEMA.words.of_file(text) == said


def test_words_are_neutral_by_default_and_payments_have_their_own():
    assert schema_of(CLAIMS).words("{lead} {holders} {rows} {records}") == (
        "lead holders rows records"
    )
    assert SCHEMA.words("{lead} {holders} {rows} {records}") == (
        "payment network banks payments accounts"
    )


def test_parties_with_other_words_have_the_same_schema():
    plain, own = Schema(**CLAIMS), schema_of(CLAIMS | {"words": WORDS})
    assert own.words.row == "claim"
    assert own.digest == plain.digest


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"rows": "claims"}, "words: rows"),
        ({"row": ""}, "words: row"),
        ({"row": "{lead}"}, "words: row"),
        ({"row": "[bold]"}, "words: row"),
        ("claims", "words: must be a table"),
    ],
)
def test_wrong_words_are_one_clear_error(words, named):
    with pytest.raises(ParameterError, match=named):
        schema_of(CLAIMS | {"words": words})


@pytest.mark.parametrize(
    ("name", "value", "usual", "said"),
    [
        ("Amount", 4210.0, 300.0, "Amount 4,210 (usually 300)"),
        ("Amount", float("nan"), 300.0, "Amount missing (usually 300)"),
        ("Kind", 3.0, 0.0, "Kind: its 4th most common value"),
        ("Kind", 10.0, 0.0, "Kind: its 11th most common value"),
        ("patient_rows_before", 0.0, 3.0, "earlier claims with this patient: 0 (usually 3)"),
        ("first_dealing", 1.0, 0.0, "first claim with this patient and doctor"),
    ],
)
def test_a_feature_of_a_row_is_a_phrase(name, value, usual, said):
    assert row_phrase(schema_of(CLAIMS | {"words": WORDS}), name, value, usual) == said


def test_a_feature_of_a_payment_is_a_phrase_with_the_value_as_people_count():
    assert phrase("account_pair_seen", 0, 3) == "first payment between these accounts"
    assert phrase("log_amount", 11, 7) == "amount: 59,900 (usually 1,100)"
    assert phrase("pair_recency", 0.25) == "last payment between these accounts: 3 hours before"
    assert phrase("sender_hour_share", 0.05, 0.5).endswith(
        "this hour of the day: 5 % (usually 50 %)"
    )
    for name in FEATURE_MEANINGS:
        for value in (0, 1, 0.5, 7):
            # Reasons are joined by a semicolon.
            assert ";" not in phrase(name, value, value)
            assert name not in phrase(name, value, value) or name == "hour"
