"""The compose file, the image and the Kubernetes manifest: what they run works, and how it is run.

No container engine is needed: the commands that they hold run as processes (tests/kit/composed).
"""

import re
import shutil
import stat
import subprocess
from contextlib import ExitStack
from urllib.request import urlopen

import pytest
import yaml
from tests.kit.composed import DEPLOY, OWNER, Composed, environment, home, in_image, mapped, stop
from tests.kit.waiting import comes_true

from pv4fad import __version__
from pv4fad.cli.federation_demo import free_ports
from pv4fad.deployment.card import read_card
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.payments.generate import MIN_TRANSACTIONS

HEALTHY = in_image("    CMD")
METRICS = "127.0.0.1:9100"
IMAGE = f"pv4fad:{__version__}"


@pytest.fixture(scope="module")
def composed(tmp_path_factory):
    """As `docker compose up` leaves it when `setup` has ended."""
    made = Composed(tmp_path_factory.mktemp("composed"), *free_ports(1), MIN_TRANSACTIONS)
    code, output = made.run("setup")
    assert code == 0, output
    # Containers have a loopback of their own; these processes share one.
    for party, port in made.metrics_ports.items():
        settings = made.volume(party) / "party" / "party.toml"
        text = settings.read_text()
        assert text.count(METRICS) == 1
        settings.write_text(text.replace(METRICS, f"127.0.0.1:{port}"))
    return made


def secret_of(composed, party):
    return composed.volume(f"{party}-secret") / "passphrase"


def test_the_parties_start_find_each_other_and_end_when_they_are_told(composed):
    with ExitStack() as stack:
        running = {}
        for name in composed.parties:
            running[name] = stack.enter_context(composed.start(name))
            stack.callback(running[name].kill)  # if the test fails; then it is waited for
        for name, process in running.items():
            assert any(f"{name} is ready" in line for line in process.stdout)
        assert comes_true(lambda: composed.run("bank01", HEALTHY)[0] == 0, 120)
        start = ["pv4fad", "federation", "start", "party", "check"]
        code, output = composed.run("aggregator", start)
        assert (code, "finished" in output) == (0, True), output
        for port in composed.metrics_ports.values():
            with urlopen(f"http://127.0.0.1:{port}/metrics") as figures:
                assert b"\npv4fad_connected 1.0\n" in figures.read()
        within_s = float(composed.services["bank01"]["stop_grace_period"].removesuffix("s"))
        assert [stop(process, within_s) for process in running.values()] == [0] * 5
    assert composed.run("bank01", HEALTHY)[0] == 1


def test_each_party_has_only_what_is_its_own(composed):
    secrets = {party: secret_of(composed, party).read_bytes() for party in composed.parties}
    assert len(set(secrets.values())) == 5
    for party in composed.parties:
        assert stat.S_IMODE(secret_of(composed, party).stat().st_mode) == 0o600
        for folder in (composed.volume(party), composed.volume(f"{party}-secret")):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = [path for path in composed.volume(party).rglob("*") if path.is_file()]
        data = {path.name for path in files if path.parent.name == "data"}
        network = ["swift_transaction_test_dataset.csv", "swift_transaction_train_dataset.csv"]
        own = {"aggregator": [], "payment-network": network}
        assert sorted(data) == own.get(party, ["bank_dataset.csv"])
        for secret in secrets.values():
            assert not any(secret.strip() in path.read_bytes() for path in files)


def test_a_second_set_up_changes_nothing_and_half_of_one_is_refused(composed, tmp_path):
    card = composed.volume("bank01") / "party" / "card.json"
    before = card.read_bytes()
    assert composed.run("setup") == (0, "The parties exist already.\n")
    assert card.read_bytes() == before
    other = Composed(tmp_path, *free_ports(1), MIN_TRANSACTIONS)
    (other.volume("bank02") / "new").mkdir()
    code, output = other.run("setup")
    assert (code, "was interrupted" in output) == (1, True)


def test_every_service_has_as_few_rights_as_it_can(composed):
    volumes = []
    for name, service in composed.services.items():
        assert service["image"] == IMAGE
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {"ports", "privileged", "devices", "pid", "ipc"} & set(service)
        if name == "setup":
            assert service["network_mode"] == "none"
            continue
        assert service["user"] == OWNER
        assert "cap_add" not in service
        assert set(service["environment"]) == {"PV4FAD_PASSPHRASE_FILE"}
        assert f"{name}-secret:/run/secrets/pv4fad:ro" in service["volumes"]
        assert f"{name}:{home()}" in service["volumes"]
        volumes += service["volumes"]
    assert len(set(volumes)) == len(volumes) == len(composed.content["volumes"])
    assert composed.content["networks"] == {"federation": {"internal": True}}


def test_the_image_runs_what_the_compose_file_runs_as_the_same_user(composed):
    assert in_image("CMD") == composed.services["bank01"]["command"]
    text = (DEPLOY.parent / "Containerfile").read_text()
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == [OWNER]
    assert f"owner={OWNER}\n" in (DEPLOY / "setup.sh").read_text()
    (extras,) = re.findall(r'\.whl\)(\[.*?\])"', text)
    # The list of what is in a release is of what the image holds.
    assert f'EXTRAS = "{extras}"' in (DEPLOY.parent / "tools" / "dist.py").read_text()


# Kubernetes.


@pytest.fixture
def pod():
    """Of the manifest's bank."""
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes-bank.yaml").read_text()))
    (found,) = [one for one in documents if one["kind"] == "StatefulSet"]
    return found["spec"]["template"]["spec"]


def test_a_bank_on_kubernetes_is_created_once_and_joins_with_the_cards_of_the_others(
    pod, composed, tmp_path
):
    paths = {
        one["mountPath"]: tmp_path / one["name"] for one in _containers(pod)[0]["volumeMounts"]
    }
    for folder in paths.values():
        folder.mkdir()
    shutil.copy(secret_of(composed, "bank01"), tmp_path / "passphrase" / "passphrase")
    (tmp_path / "passphrase" / "passphrase").chmod(0o440)  # as the manifest says
    accounts = composed.volume("bank01") / "data" / "bank_dataset.csv"
    shutil.copy(accounts, tmp_path / "accounts" / "accounts.csv")

    def run(container):
        words = [*container["command"], *container["args"]]
        given = {one["name"]: one["value"] for one in container.get("env", ())}
        return subprocess.run(
            [mapped(word, paths) for word in words],
            cwd=paths[home()],
            env=environment(given, paths),
            capture_output=True,
            text=True,
            check=False,
        )

    create, join = pod["initContainers"]
    first, again = run(create), run(create)
    own = tmp_path / "party" / "party" / "card.json"
    assert first.stdout.endswith(again.stdout)
    settings = PartyFolder(tmp_path / "party" / "party").settings()
    assert (settings.metrics, settings.name) == (METRICS, "bank01")
    assert again.stdout == own.read_text() + "\n"
    assert run(join).returncode != 0  # the cards of the others are not there yet
    for party in ("aggregator", "payment-network", "bank02", "bank03"):
        card = composed.volume(party) / "party" / "card.json"
        shutil.copy(card, tmp_path / "cards" / f"{party}.json")
    joined = run(join)
    assert joined.returncode == 0, joined.stderr
    assert read_card(own).fingerprint in joined.stdout
    assert len(list((tmp_path / "party" / "party" / "cards").iterdir())) == 4


def test_a_bank_on_kubernetes_has_as_few_rights_as_it_can(pod):
    assert pod["securityContext"]["runAsNonRoot"] is True
    uid, gid = (pod["securityContext"][name] for name in ("runAsUser", "runAsGroup"))
    assert f"{uid}:{gid}" == OWNER
    for container in _containers(pod):
        assert container["image"] == IMAGE
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    (party,) = pod["containers"]
    assert party["args"] == in_image("CMD")
    assert party["readinessProbe"]["exec"]["command"] == HEALTHY
    alive = party["livenessProbe"]["exec"]["command"]
    assert f"{METRICS}/healthz" in alive[-1]  # the hub's absence is no reason to restart
    assert party["startupProbe"]["exec"]["command"] == alive


def _containers(pod):
    return [*pod["initContainers"], *pod["containers"]]
