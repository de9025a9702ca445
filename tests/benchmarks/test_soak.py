"""`pv4fad bench soak`: what it calls a fault, and a minute of it."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pv4fad.payments.schema import SCHEMA
from pv4fad.run.predictions import HOLDERS_ANSWER
from pv4fad_bench.soak import faults_of, growth
from pv4fad_bench.soak_load import Sent
from pv4fad_bench.soak_processes import Kill, Memory, Supervised


def sent(number, *, decided="banks asked", by_bank=False):
    """A payment with its answer."""
    reasons = [SCHEMA.words(HOLDERS_ANSWER)] if by_bank else []
    answer = {"id": f"soak-{number}", "decided": decided, "reasons": reasons}
    return Sent(f"soak-{number}", number, b"", 0.0, answer)


def found(payments, *, journal=None, positive=(False, False), once_more=1, **processes):
    """The faults of a soak with these payments, that all the rest speaks for."""
    kept = {one.id: one.text for one in payments} if journal is None else journal
    world = SimpleNamespace(
        journal=lambda: kept, payments=SimpleNamespace(positive=np.array(positive))
    )
    supervised = Supervised(world, 0, **processes)
    load = SimpleNamespace(sent=payments, n_once_more=once_more)
    return faults_of(world, load, supervised, 60)


def test_nothing_is_a_fault_if_all_decisions_are_kept_and_right():
    payments = [sent(0), sent(1, by_bank=True)]
    assert found(payments, positive=(False, True), kills=[Kill("bank01", 5.0, 2.0)]) == []


def test_what_is_lost_is_a_fault():
    answered, other = sent(0), sent(1)
    assert found([answered, other], journal={answered.id: answered.text}) == [
        "1 × an answered decision is not in the journal"
    ]
    kept = {answered.id: answered.text, other.id: sent(1, decided="local only").text}
    assert found([answered, other], journal=kept) == [
        "1 × an answered decision is not in the journal"
    ]
    unanswered = Sent("soak-1", 1, b"", 0.0)
    kept = {answered.id: answered.text}
    assert found([answered, unanswered], journal=kept) == ["1 × no decision"]
    kept = {answered.id: answered.text, "soak-9": "{}"}
    assert found([answered], journal=kept) == ["1 × decisions about payments that nobody sent"]


def test_a_wrong_answer_of_a_bank_is_a_fault_and_a_missing_one_after_a_kill_is_not():
    assert found([sent(0)], positive=(True,)) == ["1 × wrong"]
    assert found([sent(0, by_bank=True)]) == ["1 × wrong"]
    payments = [sent(0), sent(1, decided="bank not answering")]
    assert found(payments, positive=(False, True), kills=[Kill("bank01", 0.5, 2.0)]) == []


def many(asked, without, local):
    """So many payments of each kind of decision."""
    hows = ("banks asked", "bank not answering", "local only")
    kinds = [how for how, n in zip(hows, (asked, without, local), strict=True) for _ in range(n)]
    return [sent(number, decided=how) for number, how in enumerate(kinds)]


def test_a_soak_in_which_hardly_a_bank_was_asked_shows_nothing():
    none = [False] * 1000
    assert found(many(10, 0, 990), positive=none) == []
    assert found(many(9, 0, 991), positive=none) == [
        "1 × banks were hardly asked: 9 payments were decided with their answers"
    ]
    (fault,) = found(many(0, 0, 1000))
    assert "hardly asked: 0" in fault


def test_banks_that_do_not_answer_though_nobody_was_killed_are_a_fault():
    none = [False] * 1000
    assert found(many(500, 10, 490), positive=none) == []
    said = ["1 × 11 of 1,000 payments far from a kill were decided without a bank"]
    assert found(many(500, 11, 489), positive=none) == said
    assert found(many(500, 11, 489), positive=none, kills=[Kill("hub", 60.0, 3.0)]) == said
    # Killed long ago, but back only now.
    assert found(many(500, 300, 200), positive=none, kills=[Kill("hub", -25.0, 20.0)]) == []


def test_a_soak_that_sent_no_payment_once_more_shows_nothing_about_that():
    assert found([sent(0)], once_more=0) == ["1 × no payment was sent once more"]


def test_whoever_does_not_come_back_or_ends_by_itself_is_a_fault():
    kills = [Kill("bank01", 5.0), Kill("service", 65.0, 31.0), Kill("worker", 125.0, 1.0)]
    assert found([], kills=kills, faults=["bank02 ended by itself with 1"]) == [
        "1 × bank02 ended by itself with 1",
        "1 × not back after bank01 was killed",
        "1 × not back after service was killed",
    ]


def rising(mb_per_hour, pid=7, level=100.0):
    return [
        Memory("bank01", pid, float(at), level + mb_per_hour * at / 3600)
        for at in range(0, 3600, 5)
    ]


def test_memory_that_grows_is_a_fault_and_processes_of_other_sizes_are_not():
    two = rising(80.0) + rising(80.0, pid=8, level=300.0)
    assert growth(two, 1800.0) == pytest.approx(80.0)
    assert found([], memory=two) == ["1 × bank grows by 80 MB an hour"]
    assert found([], memory=rising(20.0)) == []
    assert growth(rising(80.0)[:3], 0.0) is None


def lives(mb_per_hour, mb_between=0.0, seconds=400):
    """Killed every so often; each life begins above the one before, and rises."""
    return [
        Memory("bank01", n, float(at), 100.0 + n * mb_between + mb_per_hour * (at - start) / 3600)
        for n, start in enumerate(range(0, 3600, seconds))
        for at in range(start, start + seconds, 5)
    ]


def test_restarts_neither_hide_growth_nor_make_it_up():
    assert abs(growth(lives(900.0), 1800.0)) < 80
    assert found([], memory=lives(300.0)) == []
    assert found([], memory=lives(0.0, mb_between=10)) == ["1 × bank grows by 90 MB an hour"]
    assert found([], memory=lives(1800.0))[-1] == "1 × bank01 has risen by 168 MB"


@pytest.mark.slow
def test_a_minute_of_it_with_every_process_killed(tmp_path):
    size = ["--transactions", "3000", "--accounts", "1500", "--rate", "10"]
    file = tmp_path / "soak.json"
    words = ["bench", "soak", "--minutes", "2", "--every", "15", *size, "--json", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "pv4fad", *words],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads(file.read_text())
    victims = {kill["victim"] for kill in content["kills"]}
    assert victims == {"aggregator", "bank01", "bank02", "bank03", "service", "worker"}
    assert content["decided"]["banks asked"] > 100
    assert content["faults"] == []
