"""A bank in propose (protocol.md §8.0): parameters checked, keys made, other banks met."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from pv4fad.errors import DataError, ParameterError
from pv4fad.he.keys import KeyPair
from pv4fad.privacy.ledger import charge_delta, require_affordable
from pv4fad.privacy.pairwise import SEED_BYTES, PairwiseKey, pairwise_seeds
from pv4fad.protocol.checks import expect
from pv4fad.protocol.count.bank import expense_of
from pv4fad.protocol.count.state import BankSums
from pv4fad.protocol.identity import Identity, PublicIdentity
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.parameters import NOT_OF_THE_MODEL, RunParameters, table_epoch
from pv4fad.protocol.propose.messages import BankKeys, Roster, RunProposal
from pv4fad.protocol.propose.policy import Policy
from pv4fad.protocol.propose.ring_keys import keep_public_keys, new_share_keys
from pv4fad.protocol.propose.state import (
    ANSWERS,
    SUMS,
    AccountFile,
    MaskKey,
    MaskSeeds,
    OwnKeys,
)
from pv4fad.protocol.state import KeysOf, Proposal, parameters_of, with_keys_in_use
from pv4fad.randomness import secret_bytes
from pv4fad.store.records import Records


def join(
    message: RunProposal,
    run: Records,
    *,
    identity: Identity,
    accounts: BankRecords,
    policy: Policy,
) -> BankKeys:
    """Step 2 of training.  Nothing is spent before the release, but what it costs is checked."""
    parameters = _checked_parameters(message, identity.name, accounts)
    expect(parameters.purpose == "training", message, "a match without a model to score")
    policy.require(parameters, identity.name)
    # Better refused now than after the match.
    require_affordable(run.tx, expense_of(parameters, accounts.fingerprint))
    _charge(parameters, run, identity)
    run.put(BankSums(np.zeros(parameters.sizes.n_sums, np.uint64)))
    mask_key = MaskKey(secret_bytes(SEED_BYTES))
    run.put(mask_key)
    shown = identity.for_run(PairwiseKey(identity.name, mask_key.secret), parameters.run_id)
    keys = new_share_keys(parameters, identity.name)
    return _show_keys(message, parameters, keys, run, shown.to_bytes(), accounts=accounts)


def join_match(
    message: RunProposal, run: Records, *, identity: Identity, accounts: BankRecords
) -> BankKeys:
    """Step 2 of a further match for a trained model: more tables, or all of them with new keys."""
    training = run.of_epoch(0)
    parameters, model = (
        _checked_parameters(message, identity.name, accounts),
        parameters_of(training),
    )
    expect(
        parameters.purpose == "matching"
        and parameters.plain_modulus == model.plain_modulus
        and list(parameters.banks) == list(model.banks)
        and _of_the_model(parameters) == _of_the_model(model)
        and all(table_epoch(p.table_id) == message.address.epoch for p in parameters.tables),
        message,
        "a match that does not belong to the model",
    )
    _charge(parameters, run, identity)
    # New keys of the payment network are the sign to renew one's own as well.
    if message.public_keys:
        keys = new_share_keys(parameters, identity.name)
        return _show_keys(message, parameters, keys, run, b"", accounts=accounts)
    before = with_keys_in_use(training)
    require_same_accounts(before, accounts, identity.name)
    run.put(KeysOf(before.epoch))
    return _take_up(message, run, b"", b"", accounts=accounts)


def meet(
    message: Roster, run: Records, *, identity: Identity, signing_keys: Mapping[str, bytes]
) -> None:
    """Step 4: the other banks' X25519 keys, each signed by the bank that is known by that name.

    The own secret is forgotten: later thieves of long-term keys cannot work the seeds out.
    """
    parameters = parameters_of(run)
    run_id = parameters.run_id
    shown = [PublicIdentity.from_bytes(data, run_id) for data in message.identities]
    expect(
        sorted(bank.name for bank in shown) == sorted(parameters.banks),
        message,
        "not exactly the parties of the run",
    )
    for bank in shown:
        expect(bank.name in signing_keys, message, f"unknown party {bank.name}")
        bank.require_signed_by(signing_keys[bank.name])
    others = {bank.name: bank.pairwise_key for bank in shown if bank.name != identity.name}
    own = PairwiseKey(identity.name, run.get(MaskKey).secret)
    for purpose in (SUMS, ANSWERS):
        run.put(MaskSeeds.of(pairwise_seeds(own, others, run_id, purpose)), purpose)
    run.delete_at(MaskKey)


def require_same_accounts(run: Records, accounts: BankRecords, bank: str) -> None:
    """All blocks of a match must show one version of the accounts."""
    if run.get(AccountFile).fingerprint != accounts.fingerprint:
        raise DataError(
            f"{bank}: the records are not those that the match began with; continue with those,"
            " or match all again (pv4fad refresh)"
        )


def _checked_parameters(message: RunProposal, bank: str, accounts: BankRecords) -> RunParameters:
    parameters = Proposal(message.parameters).parsed()
    expect(parameters.run_id == message.address.run_id, message, "parameters of another run")
    expect(bank in parameters.banks, message, "this party takes no part")
    parameters.require_schema(accounts.schema)
    declared = parameters.banks[bank]
    if len(accounts.bare_ids) > declared:
        raise ParameterError(
            f"{bank} holds more records than the {declared} declared for it: declare more"
        )
    return parameters


def _of_the_model(parameters: RunParameters) -> dict[str, Any]:
    return parameters.model_dump(exclude=NOT_OF_THE_MODEL)


def _charge(parameters: RunParameters, run: Records, identity: Identity) -> None:
    """The whole match at once, before any of its answers is made."""
    charge_delta(run.tx, "match", parameters.delta_with(identity.name), datetime.now(UTC))


def _show_keys(
    message: RunProposal,
    parameters: RunParameters,
    keys: KeyPair,
    run: Records,
    shown: bytes,
    *,
    accounts: BankRecords,
) -> BankKeys:
    keep_public_keys(message, parameters, parameters.network_rings, run)
    public = keys.public
    run.put(OwnKeys(public.name, keys.secret.data, public.data))
    return _take_up(message, run, public.data, shown, accounts=accounts)


def _take_up(
    message: RunProposal,
    run: Records,
    public_key: bytes,
    shown: bytes,
    *,
    accounts: BankRecords,
) -> BankKeys:
    run.put(Proposal(message.parameters))
    run.put(AccountFile(accounts.fingerprint))
    return BankKeys(message.address.answer(), public_key, shown)
