"""`pv4fad audit`: compare the signed logs of several parties, and open a commitment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pv4fad.audit.catch_up import require_caught_up
from pv4fad.audit.live_marks import MARKS_FILE, MarkLog
from pv4fad.audit.log_file import LogFile
from pv4fad.audit.verify import Audit, verify_logs
from pv4fad.audit.verify_keys import fingerprints, keys_in
from pv4fad.audit.witness import Witness
from pv4fad.cli.console import err, fail, out, print_json
from pv4fad.cli.options import AsJson, StoreKey, party_key, store_key
from pv4fad.deployment.party_folder import PartyFolder, read_identity
from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.files import write_whole
from pv4fad.lead.data import load_rows
from pv4fad.payments.challenge import read_partition, training_split
from pv4fad.protocol.identity import stored_identity
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.state import parameters_of
from pv4fad.run.folder import RUN_FILE, RunFolder
from pv4fad.store.disk import DiskStore
from pv4fad.store.file import holds_store
from pv4fad.store.records import Records, run_ids
from pv4fad.verify.replay import Replay, replay

FAULTS = "the logs do not fit together: see above who has to explain what"
NOT_HELD = "what was committed to is not what these data give: see above"
OWN_WORD = (
    "Compared with the payment network's own record of its commitment only: give the logs of banks"
    " with --log"
)
_WORDS = {True: "holds", False: "DOES NOT HOLD", None: "not tried"}

app = typer.Typer(help="Signed logs of messages, and what was committed to.", no_args_is_help=True)


@app.command()
def export(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A party's folder, or RUN/PARTY of a run.")
    ],
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the log.")],
    key: StoreKey = None,
) -> None:
    """Write a party's log of messages to a file that can be handed to an auditor.

    It has the ids, digests and signatures of all messages sent and received, and a bank's ledger;
    no content, no secret key, nothing about an account or a payment.
    """
    log = _log_of(folder, key)
    write_whole(file, log.to_json())
    n = sum(len(chain.messages) for chain in log.chains)
    out.print(escape(f"{log.party}: {n:,} messages written to {file}"), soft_wrap=True)


@app.command("witness")
def witness_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Your own party's folder.")],
    *,
    party: Annotated[str, typer.Option("--of", help="The party whose store was restored.")],
    code: Annotated[str, typer.Option(help="The code that it has sent.")],
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")],
    key: StoreKey = None,
) -> None:
    """Write what you hold of another party's messages, signed, for its pv4fad party catch-up.

    Ask that party in another way, such as by telephone, whether it has restored a backup. The file
    has ids, digests and signatures of the messages between the two of you, and what that party has
    shown of its ledger.
    """
    own = PartyFolder(folder)
    cards = own.cards()
    if party not in cards or party == own.settings().name:
        raise ParameterError(f"--of {party}: give the name of another party whose card is here")
    with own.visit_store(party_key(own, key)) as store:
        signing_key = cards[party].public.signing_key
        witness = Witness.of(store, read_identity(store), party, signing_key, code)
        try:
            require_caught_up(store)
        except StoreError as error:
            err.print(escape(f"{error}. Until then this file lacks what that store has forgotten."))
    write_whole(file, witness.to_json())
    n = len(witness.received)
    out.print(escape(f"{n:,} messages of {party} written to {file}"), soft_wrap=True)


@app.command()
def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER|FILE...",
            help="Logs of parties, folders of parties, or a run with the folders of all parties.",
        ),
    ],
    key: StoreKey = None,
    as_json: AsJson = False,
) -> None:
    """Compare the logs of several parties, without a connection to any of them.

    A message that was changed, left out, moved or replaced, a store that was put back to an earlier
    state, and a limit that was exceeded are found, and the party that has to explain it is named.
    The more logs, the more is found.
    """
    logs: list[LogFile] = []
    for path in paths:
        logs += _logs_at(path, key)
    runs = [document for path in paths if (document := RunFolder(path).read()) is not None]
    found = verify_logs(logs, [run.parameters for run in runs])
    if as_json:
        print_json(
            {
                "parties": [
                    {"name": log.party, "fingerprint": log.public.fingerprint} for log in logs
                ],
                "messages": found.n_messages,
                "confirmed": found.n_confirmed,
                "live": found.n_live,
                "live_missing": found.n_live_missing,
                "faults": [vars(one) for one in found.faults],
                "notes": [vars(one) for one in found.notes],
            }
        )
    else:
        _print(logs, found)
    if found.faults:
        fail(FAULTS, 1)


@app.command("replay")
def replay_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A run, or the payment network's folder."),
    ],
    data: Annotated[
        Path, typer.Argument(metavar="DIR", help="The payment network's data, or a file of it.")
    ],
    *,
    run_id: Annotated[
        str | None, typer.Option("--run", help="Which run, if the folder has several.")
    ] = None,
    log_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="The exported log of a bank or of the aggregator, which has to hold the same"
            " commitment; for each of them.",
        ),
    ] = None,
    key: StoreKey = None,
    as_json: AsJson = False,
) -> None:
    """Do the payment network's preparation again and compare it with what it committed to.

    Needs the payment network's folder and data. What it committed to, the logs of others show,
    under its signature; without --log its own store has to be believed. What it encrypted
    afterwards is not compared.
    """
    logs = [LogFile.read(file) for file in log_files or ()]
    store_folder = folder if holds_store(folder) else folder / PAYMENT_NETWORK
    with _opened(store_folder, key) as store:
        if store.party != PAYMENT_NETWORK:
            raise StoreError(f"{folder} is of {store.party}: the lead of the run has the record")
        run = _chosen_run(store, run_id)
        with store.transaction() as tx:
            proposed = parameters_of(Records(tx, run))
        committed = proposed.commitment
        _require_held(store, run, committed, logs)
        result = _replayed(store, proposed, data)
    if as_json:
        others = {"held_by": [log.party for log in logs]}
        print_json({"run_id": run, "committed": committed} | others | vars(result))
    else:
        out.print(f"run {run}, commitment {committed}", soft_wrap=True)
        for name, value in vars(result).items():
            out.print(f"  {name:<12} {_WORDS[value]}")
        held = ", ".join(log.party for log in logs)
        out.print(f"{held}: the same commitment" if logs else OWN_WORD, soft_wrap=True)
    if not result.holds:
        fail(NOT_HELD, 1)


def _require_held(store: DiskStore, run: str, committed: str, logs: list[LogFile]) -> None:
    """The others hold this commitment, signed by the owner of the store."""
    identity = stored_identity(store)
    if identity is None:
        raise StoreError(f"{store.party} has no keys yet, and has signed nothing")
    for log in logs:
        held = log.commitments(store.party, identity.public().signing_key, run)
        if not held:
            raise DataError(
                f"the log of {log.party} has no proposal of run {run} that the owner of this folder"
                " has signed"
            )
        if held != {committed}:
            fail(
                f"{log.party} holds another commitment of run {run}, signed by the payment network,"
                f" than the payment network's own store: {', '.join(sorted(held))}",
                1,
            )


def _replayed(store: DiskStore, proposed: RunParameters, data: Path) -> Replay:
    from pv4fad.lead.prepare import read_training_record  # noqa: PLC0415  slow to import

    schema = read_training_record(store, proposed.run_id).data_schema
    file = data if data.is_file() else read_partition(training_split(data)).transactions
    err.print("Doing the preparation again (as long as it took in training) ...")
    return replay(store, proposed, load_rows(schema, file, labels_required=True))


def _chosen_run(store: DiskStore, wanted: str | None) -> str:
    known = run_ids(store)
    if wanted is None and len(known) == 1:
        return known[0]
    if wanted in known:
        return wanted
    what = "holds no run" if not known else f"holds the runs {', '.join(known)}: choose with --run"
    raise StoreError(f"the store of the lead {what}")


def _logs_at(path: Path, key: str | None) -> list[LogFile]:
    if path.is_file():
        return [LogFile.read(path)]
    if holds_store(path):
        return [_log_of(path, key)]
    if (path / RUN_FILE).is_file():
        return [_log_of(one, key) for one in sorted(path.iterdir()) if holds_store(one)]
    raise DataError(f"{path}: neither a log, nor the folder of a party or of a run")


def _log_of(folder: Path, key: str | None) -> LogFile:
    with _opened(folder, key) as store:
        identity = stored_identity(store)
        if identity is None:
            raise StoreError(f"{folder}: {store.party} has no keys yet, and has signed nothing")
        return LogFile.of(store, identity, MarkLog.read(folder / MARKS_FILE))


def _opened(folder: Path, key: str | None) -> DiskStore:
    # As a guest: the party may be running.
    return DiskStore.open_shared(folder, store_key(folder, key), owner=False)


def _print(logs: list[LogFile], found: Audit) -> None:
    for log in logs:
        n = sum(len(chain.messages) for chain in log.chains)
        text = f"{log.party}: {n:,} messages, key {log.public.fingerprint[:16]}"
        out.print(escape(text), soft_wrap=True)
    given = {log.party for log in logs}
    for party, at in sorted(keys_in(logs).items()):
        if party not in given:
            keys = fingerprints(set[str]().union(*at.values()))
            text = f"{party}: no log, key {keys} in that of {', '.join(sorted(at))}"
            out.print(escape(text), soft_wrap=True)
    out.print(
        f"{found.n_messages:,} messages; their receivers have confirmed {found.n_confirmed:,} of"
        " them under their own signature",
        soft_wrap=True,
    )
    if found.n_live:
        out.print(
            f"{found.n_live:,} live messages, up to the last mark of each session;"
            f" {found.n_live_missing:,} of them did not arrive",
            soft_wrap=True,
        )
    for one in found.notes:
        out.print(escape(f"{one.party}: {one.what}"), soft_wrap=True)
    for one in found.faults:
        out.print(f"[bold red]{escape(one.party)}[/]: {escape(one.what)}", soft_wrap=True)
    if not found.faults:
        out.print("all logs fit together")
