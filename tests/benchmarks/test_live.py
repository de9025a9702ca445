"""`pv4fad bench live`: how it counts, and a small one with everything that it measures."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from pv4fad.payments.schema import SCHEMA
from pv4fad.run.predictions import HOLDERS_ANSWER
from pv4fad_bench.live_load import Answered, send_all
from pv4fad_bench.live_rows import Load, Part, n_wrong, row_of

BY_BANK = SCHEMA.words(HOLDERS_ANSWER)


def answer(decided, *reasons):
    return {"decided": decided, "reasons": list(reasons)}


class _Busy(BaseHTTPRequestHandler):
    """Takes one payment of a batch, refuses the second, and every other batch."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        payments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.n_batches += 1
        refused = {"error": "later", "status": 503}
        if self.server.n_batches % 2 == 0:
            content = json.dumps({"error": "too many"}).encode()
            self.send_response(429)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        answers = [answer("local only"), *[refused] * (len(payments) - 1)]
        for number in range(len(answers), 0, -1):
            line = json.dumps([number, answers[number - 1]]) + "\n"
            self.wfile.write(f"{len(line):x}\r\n{line}\r\n".encode())
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        pass


def test_what_a_busy_service_refuses_is_counted_and_the_rest_goes_on():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Busy) as server:
        server.n_batches = 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = send_all(server.server_address[1], "token", [b"{}"] * 60, 1_000, 1)
        server.shutdown()
    decided = [one for one in found.answers if one]
    assert len(found.answers) == 60
    assert len(decided) == -(-server.n_batches // 2)


def part(answers, is_new, positive):
    found = Answered(answers, np.arange(1, len(answers) + 1) / 10)
    return Part(
        found, np.array(is_new), n_wrong(found, np.array(positive)), 2, {"hub": 3.0}, 6, 9e3
    )


def test_a_row_tells_new_payments_from_known_ones_and_adds_up_repetitions():
    answers = [answer("banks asked"), answer("banks asked", BY_BANK), {}]
    load = Load(3, 50, 0.5, 100, 6)
    row = row_of(load, [part(answers, [True, False, True], [False, True, False])] * 2)
    assert (row.new_ms, row.known_ms) == ((100, 100, 100), (200, 200, 200))
    assert (row.payments, row.refused, row.asked, row.wrong) == (6, 2, 2, 0)
    assert (row.missed_ticks, row.cpu, row.kb_each) == (4, {"hub": 0.5}, 3.0)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_wrong_decision_counts_whether_it_asked_or_was_known(is_new):
    answers = [answer("banks asked"), answer("banks asked", BY_BANK), answer("bank not answering")]
    assert (
        row_of(Load(3, 50, 0, 100, 6), [part(answers, [is_new] * 3, [True, False, True])]).wrong
        == 2
    )


@pytest.mark.slow
def test_live_decisions_are_measured_and_none_is_wrong(tmp_path):
    file = tmp_path / "live.json"
    size = ["--transactions", "3000", "--accounts", "1500", "--rates", "20,40", "--seconds", "4"]
    words = [*size, "--banks", "3", "--known", "0,0.5", "--json", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "pv4fad", "bench", "live", *words],
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert len(done.stdout.splitlines()) == 1 + len(rows) == 5
    for row in rows:
        assert row["wrong"] == row["refused"] == 0
        assert (row["known_ms"] is None) == (row["load"]["known"] == 0)
    # Each row has new accounts, whatever the rows before it asked.
    assert [row["asked"] + row["no_answer"] >= 90 for row in rows[:2]] == [True, True]
