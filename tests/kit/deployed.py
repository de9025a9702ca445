"""A deployed federation on this machine: every party in its own folder and processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.in_threads import transactions_of, write_data
from tests.kit.waiting import comes_true

from pv4fad.cli.federation_demo import free_ports
from pv4fad.deployment.new_party import NewParty, create_party
from pv4fad.deployment.party_folder import CarrierName, PartyFolder
from pv4fad.deployment.status import Status, read_status
from pv4fad.lead.data import load_holder, load_rows
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad.privacy.ledger import Ledger, read_ledger
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.run.folder import RunFolder
from pv4fad.store.sealing import Passphrase
from pv4fad.verify.predictions import ScoredData
from pv4fad.verify.training import Verification, compare

PASSPHRASE = "correct horse battery"
TRAINING = "seed = 33\nalert-share = 0.05\n"  # as in `in_threads`
MARK = "PV4FAD_TEST_DEPLOYMENT"  # in the environment of everything that is started
PATIENCE_S = 1800  # alone on two cores everything takes a tenth of this
_SPELL_S = 0.25


class Deployment:
    """Folders are made at once; processes are started and killed by name."""

    def __init__(self, root: Path, banks: list[str], carrier: CarrierName = "hub") -> None:
        self.root = root
        self.banks = banks
        self.carrier: CarrierName = carrier
        self.scenario = write_data(root / "data", banks)
        self.parties = [AGGREGATOR, PAYMENT_NETWORK, *banks]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._begun: list[subprocess.Popen[str]] = []
        hub, *ports = free_ports(len(self.parties))
        self.hub = f"127.0.0.1:{hub}"
        for name, port in zip(self.parties, [9094, *ports], strict=True):
            create_party(root / name, self._new(name, port), lambda: Passphrase(PASSPHRASE))
        settings = root / PAYMENT_NETWORK / "party.toml"
        settings.write_text(settings.read_text() + TRAINING)
        for name in self.parties:
            for other in self.parties:
                PartyFolder(root / name).import_card(root / other / "card.json")

    def _new(self, name: str, port: int) -> NewParty:
        if name == AGGREGATOR:
            return NewParty("aggregator", name, self.hub, carrier=self.carrier)
        if name == PAYMENT_NETWORK:
            new = NewParty(
                "payment-network",
                name,
                self.hub,
                data=transactions_of(self.scenario, "train"),
                new_transactions=transactions_of(self.scenario, "test"),
                epsilon="none",
            )
        else:
            limit = parse_epsilon("none")
            new = NewParty("bank", name, self.hub, data=self.account_file(name), limit=limit)
        return replace(new, carrier=self.carrier, runtime_port=port)

    def account_file(self, bank: str) -> Path:
        return self.scenario / "train" / bank / "bank_dataset.csv"

    # Processes.

    def start(self, *names: str) -> None:
        for name in names or self.parties:
            with self.log(name).open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "pv4fad", "party", "run", self.root / name],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )

    def kill(self, name: str) -> None:
        """As a power failure would: the station, and with it its carrier's program."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self, name: str) -> None:
        """As an operator does: it ends by itself, without an error."""
        process = self._processes.pop(name)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, self.logs()

    def wait_for_job(self, number: int) -> None:
        """Until the hub has begun it."""

        def has_begun() -> bool:
            found = read_status(self.root / AGGREGATOR)
            return found is not None and found.number == number

        self.wait_until(has_begun, f"job {number} to begin")

    def go_on(self, name: str, until: Callable[[], object], what: str) -> None:
        """Let a party work in spells until something holds of the job; leave it suspended.

        So the job is where a test wants it, however fast the machine is: the hub writes only every
        second how far it is, and the whole job may take no longer.
        """

        def is_so() -> bool:
            process.send_signal(signal.SIGSTOP)
            since_s = time.time()
            assert comes_true(lambda: written_s() > since_s or self.status().state != "running")
            assert self.status().state == "running", f"the job was over before {what}"
            if until():
                return True
            process.send_signal(signal.SIGCONT)
            time.sleep(_SPELL_S)
            return False

        def written_s() -> float:
            return (self.root / AGGREGATOR / "status.json").stat().st_mtime

        process = self._processes[name]
        self.wait_until(is_so, what)

    def release(self, name: str) -> None:
        """Let a party that is suspended work again."""
        self._processes[name].send_signal(signal.SIGCONT)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """`pv4fad federation ...` at the aggregator, not waited for."""
        command, *rest = arguments
        words = ["federation", command, str(self.root / AGGREGATOR), *rest]
        process = subprocess.Popen(
            [sys.executable, "-m", "pv4fad", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._begun.append(process)
        return process

    def federation(self, *arguments: str) -> Status:
        """`pv4fad federation ...` to its end, without an error."""
        process = self.begin(*arguments)
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            pytest.fail(f"{arguments}: still running after {PATIENCE_S} s\n{self.logs()}")
        assert process.returncode == 0, f"{arguments}: {output}\n{self.logs()}"
        return self.status()

    def wait_for(self, name: str, text: str) -> None:
        """Until a party's log says so."""
        self.wait_until(lambda: text in self.log(name).read_text(), f"{name} to say {text!r}")

    def wait_until(self, condition, what: str) -> None:
        assert comes_true(condition, PATIENCE_S), f"waited for {what}\n{self.logs()}"

    def close(self) -> None:
        """Terminate all processes; kill those that do not end."""
        for command in self._begun:
            if command.returncode is None:  # a test that failed did not wait for it
                command.kill()
                command.communicate()
        for process in self._processes.values():
            process.terminate()
            process.send_signal(signal.SIGCONT)
        for process in self._processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes = {}

    @property
    def environment(self) -> dict[str, str]:
        marks = {MARK: str(self.root), "COLUMNS": "200"}
        return os.environ | marks | {"PV4FAD_PASSPHRASE": PASSPHRASE}

    # What is left behind.

    def log(self, name: str) -> Path:
        path = self.root / f"{name}.log"
        path.touch()
        return path

    def logs(self) -> str:
        """The ends of all logs, for a failing test."""
        paths = [*self.root.glob("*.log"), *self.root.glob("*/flower/*.log")]
        ends = [f"--- {path}\n{path.read_text(errors='replace')[-800:]}" for path in paths]
        return "\n".join(ends)

    def status(self) -> Status:
        found = read_status(self.root / AGGREGATOR)
        assert found is not None
        return found

    def ledger(self, bank: str) -> Ledger:
        with PartyFolder(self.root / bank).open_store(Passphrase(PASSPHRASE)) as store:
            return read_ledger(store)

    def verified(self) -> Verification:
        """Model and alerts against a trusted third party, once no process has the stores open."""
        network = self.root / PAYMENT_NETWORK
        (run,) = (network / "runs").iterdir()
        document = RunFolder(run).require_finished()
        accounts = {bank: load_holder(SCHEMA, self.account_file(bank), bank) for bank in self.banks}
        scored = None
        for predictions in (network / "predictions").glob("*.csv"):
            scored = ScoredData.read(
                SCHEMA, self.scenario / "test", accounts, predictions, run.name
            )
        known = load_rows(SCHEMA, transactions_of(self.scenario, "train"), labels_required=True)
        stores = {
            name: PartyFolder(self.root / name).open_store(Passphrase(PASSPHRASE))
            for name in self.parties
        }
        try:
            return compare(
                document.parameters,
                known,
                accounts,
                stores,
                scored=scored,
            )
        finally:
            for store in stores.values():
                store.close()


def processes_of(root: Path) -> list[str]:
    """Command lines of living processes that a deployment started, however indirectly."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={root}\0".encode() in (process / "environ").read_bytes():
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                found.append(line.decode(errors="replace"))
    return found


def left_behind(root: Path) -> list[str]:
    """What is still there a while after a deployment was closed.

    Flower's helpers look every few seconds whether their parent is alive.
    """
    comes_true(lambda: not processes_of(root), 30)
    return processes_of(root)
