"""All parties of a run have the same schema; a bank with another one takes no part."""

import pytest
from tests.kit.small_federation import records_of

from pv4fad.errors import ParameterError
from pv4fad.lead.data import all_records, bank_directory, bank_records
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.rows import LeadData
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.simulate import memory_stores, simulate
from pv4fad.lead.train import new_document, train
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.ledger import read_ledger
from pv4fad.run.meter import Meter
from pv4fad.schema import Schema
from pv4fad.workers import WorkerPool

FIELDS = {name: getattr(SCHEMA, name) for name in Schema.model_fields}


def with_record(**entries) -> Schema:
    record = SCHEMA.record.model_copy(update=entries)
    return Schema(**FIELDS | {"record": record})


OTHERS = {
    "another name": Schema(**FIELDS | {"name": "payments2"}),
    "classes in another order": with_record(
        classes=("ordinary", *reversed(SCHEMA.record.classes[1:]))
    ),
    "other kinds": with_record(kinds={"any": SCHEMA.record.classes[1:]}),
    "other rules": with_record(rules=SCHEMA.record.rules[:-1]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_bank_with_another_schema_refuses_the_run_and_both_are_named(tables, name):
    other = OTHERS[name]
    frames = records_of(tables.accounts, "bank01", "bank02")
    data = LeadData(SCHEMA, tables.train.transactions, bank_directory(frames))
    sizes = {bank: frame.height for bank, frame in frames.items()}
    new = prepare_run(data, sizes, TrainingSettings(epsilon="1", seed=1))
    records = all_records(SCHEMA, frames) | {"bank02": bank_records(other, frames["bank02"])}
    stores, meter = memory_stores(frames), Meter()
    with WorkerPool(0) as pool:
        federation = simulate(records, pool, stores=stores, first_limit="none")
        with pytest.raises(ParameterError, match="need the same schema") as refused:
            train(federation, new, new_document(new, meter), meter)
    message = str(refused.value)
    assert message.startswith("bank02: ")
    assert SCHEMA.digest[:8] in message
    assert other.digest[:8] in message
    assert not read_ledger(stores["bank02"]).expenses
