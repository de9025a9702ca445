"""What several phases read: the parameters, and whose keys are in use."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from pv4fad.errors import OrderError
from pv4fad.protocol.parameters import RunParameters
from pv4fad.store.records import Record, Records


@dataclass(frozen=True)
class Proposal(Record):
    """The parameters of a run or of a later match, as they were proposed."""

    json: bytes = field(repr=False)

    def parsed(self) -> RunParameters:
        return _parsed(self.json)


@lru_cache(maxsize=32)
def _parsed(json: bytes) -> RunParameters:
    return RunParameters.from_json(json)


def parameters_of(records: Records) -> RunParameters:
    """The parameters, or an error if this party knows no such run or match."""
    proposal = records.find(Proposal)
    if proposal is None:
        raise OrderError("a message of a run that this party has not been proposed")
    return proposal.parsed()


@dataclass(frozen=True)
class KeysOf(Record):
    """The earlier match whose keys a match goes on with; one with keys of its own has no such
    record.  The payment network and the banks each note it."""

    epoch: int


def with_keys_of(run: Records) -> Records:
    """The records of the match that made the keys of a run or match."""
    noted = run.find(KeysOf)
    return run if noted is None else run.of_epoch(noted.epoch)


@dataclass(frozen=True)
class KeyEpoch(Record):
    """The match whose keys are in use; the payment network and the banks each note it."""

    epoch: int


def with_keys_in_use(training: Records) -> Records:
    """The records of the match whose keys are in use."""
    noted = training.find(KeyEpoch)
    return training.of_epoch(0 if noted is None else noted.epoch)
