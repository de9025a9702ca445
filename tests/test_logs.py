"""Logs: one event per line in either format, and no words of unexpected errors."""

import json
import logging
import threading

import pytest

from pv4fad.cli.long_running import logging_as
from pv4fad.errors import DataError, ParameterError
from pv4fad.logs import figures, working_on

log = logging.getLogger("pv4fad.test")


@pytest.fixture
def written(capsys):
    """What was written to standard error."""
    yield lambda: capsys.readouterr().err
    working_on()


def fail_with_account():
    try:
        int("DE02120300000000202051")
    except ValueError as error:
        raise RuntimeError("DE02120300000000202051") from error


def test_a_line_is_an_object_with_party_job_phase_event_and_figures(written):
    with logging_as("json", "bank01") as say:
        working_on("train", "match")
        log.info("%d of %s", 3, "four", extra=figures(seconds=1.5))
        say("bank01 is ready")
    first, second = map(json.loads, written().splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "info",
        "party": "bank01",
        "from": "pv4fad.test",
        "job": "train",
        "phase": "match",
        "event": "3 of four",
        "figures": {"seconds": 1.5},
    }
    assert second["event"] == "bank01 is ready"


def test_what_one_thread_works_on_is_not_said_of_another(written):
    with logging_as("json", "bank01"):
        working_on("train", "match")
        thread = threading.Thread(target=log.info, args=("elsewhere",))
        thread.start()
        thread.join()
    assert json.loads(written())["phase"] == ""


@pytest.mark.parametrize("chosen", ["text", "json"])
def test_of_an_unexpected_error_a_log_has_type_and_place_and_no_words(written, chosen):
    with logging_as(chosen, "bank01"):
        try:
            fail_with_account()
        except RuntimeError:
            log.exception("unexpected error")
    (line,) = written().splitlines()
    assert "RuntimeError at test_logs.py:" in line
    assert "in fail_with_account" in line
    assert "because of ValueError" in line
    assert "DE021203" not in line


@pytest.mark.parametrize("chosen", ["text", "json"])
def test_words_of_another_party_cannot_look_like_a_line_of_the_log(written, chosen):
    with logging_as(chosen, "aggregator"):
        log.error("bank01: %s", "refused\n2026-11-18 pv4fad.hub: job 1 (train): finished\r\n")
    assert len(written().splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "code", "event"),
    [
        (DataError("accounts.csv: the file is empty"), 2, "DataError: accounts.csv: the file"),
        (RuntimeError("DE02"), 1, "unexpected error"),
        (PermissionError(13, "Permission denied", "party.toml"), 2, "party.toml: Permission"),
    ],
)
def test_as_json_the_error_that_ends_a_command_is_a_line_of_the_log(written, error, code, event):
    with pytest.raises(SystemExit) as ended, logging_as("json", "bank01"):
        raise error
    text = written()
    line = json.loads(text)
    assert (ended.value.code, line["level"]) == (code, "error")
    assert line["event"].startswith(event)
    assert "DE02" not in text


def test_another_format_is_refused():
    with (
        pytest.raises(ParameterError, match="give one of text, json"),
        logging_as("xml", "bank01"),
    ):
        pass
