"""Match accounts after training: those that are new, or all of them again (refresh).

A refresh is needed because bank records have changed, or to have new keys.  Both are the same
thing.  The join is kept as shares: u_k with the payment network, and s_k under the key of the bank.
A new key cannot open what was encrypted under the old one, and s_k cannot be carried over without
showing it to somebody; so new keys need new shares, and those come from a new match.  When it is
complete, every party forgets the old shares and keys.

A refresh can be interrupted at any moment and asked for again: it carries on, and what is over is
not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pv4fad.errors import DataError
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.scoring_job import JobNotes
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.protocol.order import messages_of
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import match_parameters
from pv4fad.protocol.tables import AccountKey, assign_tables
from pv4fad.run.meter import MATCH, Meter


def refresh(
    federation: LedFederation, parameters: RunParameters, directory: Mapping[str, str], meter: Meter
) -> None:
    """All accounts met so far, with the banks' present records and new keys everywhere.

    An interrupted scoring is dropped: its batches would not all show the same records.
    """
    matching = Matching(federation, parameters, directory, meter)
    matching.carry_on()
    network, run_id = federation.payment_network, parameters.run_id
    notes = JobNotes(network.store, run_id)
    if notes.refresh() not in network.matches(run_id) or matching.changed_accounts():
        notes.end()
        keys = [key for match in network.matched_accounts(run_id) for key in match]
        notes.write_refresh(network.next_epoch(run_id))
        matching.match(keys, replace=True)
    notes.write_refresh(None)
    meter.stop()


def drop_work_under_way(network: PaymentNetwork, run_id: str) -> None:
    """Give up the scoring or refresh of a model that was interrupted; the model stays."""
    notes = JobNotes(network.store, run_id)
    notes.end()  # keeps the bits that were answered, so that nothing is asked twice
    match = network.epoch_under_way(run_id)
    if match is not None:
        network.close(run_id, match)
    notes.write_refresh(None)


class Matching:
    """Matches of a trained run; `directory`: what rows call a bank → bank."""

    def __init__(
        self,
        federation: LedFederation,
        parameters: RunParameters,
        directory: Mapping[str, str],
        meter: Meter,
    ) -> None:
        self._federation = federation
        self._network = federation.payment_network
        self._model = parameters
        self._run_id = parameters.run_id
        self._directory = dict(directory)
        self._meter = meter

    def match(self, keys: Sequence[AccountKey], *, replace: bool) -> None:
        """These accounts; `replace`: in place of all that were matched before."""
        epoch = self._network.next_epoch(self._run_id)
        tables = assign_tables(
            keys,
            self._directory,
            self._model.sizes.n_trees,
            broadcast=any(plan.broadcast for plan in self._model.tables),
        )
        accounts = self._federation.bank_accounts
        parameters, named = match_parameters(self._model, tables, accounts, epoch)
        self._meter.expect(MATCH, sum(messages_of(parameters).values()))
        self._federation.match(parameters, named, replace=replace, observer=self._meter)

    def match_new(self, wanted: Iterable[AccountKey]) -> None:
        """Those of these accounts that are in no table, with all that joined after the others."""
        everywhere, *deltas = self._network.matched_accounts(self._run_id)
        since = dict.fromkeys(key for delta in deltas for key in delta)
        since |= dict.fromkeys(wanted)
        known = set(everywhere)
        self.match([key for key in since if key not in known], replace=False)

    def carry_on(self) -> None:
        """The match or batch that was interrupted, to its end."""
        epoch = self._network.epoch_under_way(self._run_id)
        if epoch is None:
            return
        if epoch in self._network.matches(self._run_id) or all(
            bank.matched_account_file(self._run_id, epoch) in (None, bank.account_file)
            for bank in self._federation.banks
        ):
            self._federation.resume(self._meter)
        else:
            # A table must not be matched half with one version of the accounts, half with another.
            self._network.close(self._run_id, epoch)

    def require_same_accounts(self) -> None:
        """The banks' account files are those that were matched last."""
        changed = self.changed_accounts()
        if changed:
            raise DataError(
                f"the records of {', '.join(changed)} are not those that were matched last: "
                "match all again (pv4fad refresh)"
            )

    def changed_accounts(self) -> list[str]:
        """The banks whose files are not those of the match in force."""
        everywhere = self._network.matches(self._run_id)[0]
        return [
            bank.name
            for bank in self._federation.banks
            if bank.matched_account_file(self._run_id, everywhere) != bank.account_file
        ]
