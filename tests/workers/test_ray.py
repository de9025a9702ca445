"""A Ray cluster gives the results of this process; a node that dies in the middle changes nothing.

Nodes are sessions of processes on this machine, with TLS, a token and no spilling.
"""

import signal
import sys
from importlib.metadata import version

import numpy as np
import pytest
import tests.kit.worker_jobs as jobs
from tests.kit.ray_nodes import MINUTES, needs_ray, ray_nodes
from tests.kit.scoring_worlds import expected_votes
from tests.kit.waiting import comes_true
from tests.kit.world import check_equal_to_the_trusted_third_party, make_world, scoring_input

from pv4fad.errors import CiphertextError, ParameterError, WorkerError
from pv4fad.workers import WorkerPool, given_workers


@pytest.fixture(scope="module")
def cluster():
    """One node, with a single CPU."""
    with ray_nodes() as nodes:
        nodes.start_head(1)
        yield nodes


@pytest.fixture
def pool(cluster):
    with WorkerPool(cluster.address) as opened:
        yield opened


@pytest.mark.parametrize("text", ["ray", "ray://hub.example:10001", "10.0.0.5:6379"])
def test_addresses_of_clusters_are_taken_as_they_are(text):
    assert given_workers(text) == text


@pytest.mark.parametrize("text", ["", "many", "ray://", "ray://host", "host:port"])
def test_what_is_neither_number_nor_address_is_refused(text):
    with pytest.raises(ParameterError, match="ray://host:10001"):
        WorkerPool(text)


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "pv4fad.workers.ray_cluster", raising=False)
    with pytest.raises(ParameterError, match=r"pip install 'pv4fad\[ray\]'"):
        WorkerPool("ray")


@needs_ray
def test_results_come_in_order_and_arguments_are_the_jobs_own(pool):
    given = [np.full(50_000, i) for i in range(6)]
    results = list(pool.map(jobs.double, given))
    assert [int(one[0]) for one in results] == [0, 2, 4, 6, 8, 10]
    results[0] += 1  # what comes back is the caller's own
    assert [int(one[0]) for one in given] == [0, 1, 2, 3, 4, 5]
    assert len(pool.usage.cpu_s) == pool.n_workers == 1


@needs_ray
def test_only_a_few_jobs_are_drawn_ahead(pool):
    drawn = []

    def arguments():
        for i in range(20):
            drawn.append(i)
            yield np.array([i])

    next(pool.map(jobs.double, arguments()))
    assert len(drawn) == 2


@needs_ray
def test_errors_of_jobs_pass_through(pool):
    with pytest.raises(CiphertextError, match="job 3"):
        list(pool.map(jobs.refuse, [3]))
    with pytest.raises(ZeroDivisionError, match="a mistake in job 4"):
        list(pool.map(jobs.fail, [4]))
    assert list(pool.begin(jobs.double, [np.array([1])])) == [2]


@needs_ray
def test_shared_bytes_are_read_by_many_jobs(pool):
    shared = pool.share([b"abc", b"defgh" * 100_000])
    for size in (3, 250_000):
        (read,) = pool.map(jobs.pieces, [jobs.SharedJob(shared, size)])
        assert {len(piece) for piece in read[:-1]} == {size}
        assert b"".join(read) == b"abc" + b"defgh" * 100_000


@needs_ray
def test_a_client_outside_of_the_cluster_gets_the_same(cluster):
    with WorkerPool(cluster.client_address) as pool:
        assert [int(one[0]) for one in pool.map(jobs.double, [np.full(2_000_000, 4)])] == [8]


@needs_ray
def test_two_pools_of_a_process_use_one_connection_to_one_cluster(cluster):
    with WorkerPool(cluster.address) as first:
        with WorkerPool(cluster.address) as second:
            assert list(second.map(jobs.double, [np.array([1])])) == [2]
            with pytest.raises(ParameterError, match="this process uses the Ray cluster at"):
                WorkerPool(cluster.client_address)
        assert list(first.map(jobs.double, [np.array([2])])) == [4]


@needs_ray
def test_a_federation_on_a_cluster_equals_the_trusted_third_party(pool):
    """Training with sealed labels, then votes: every kind of job of the protocol."""
    world = make_world(seed=1, n_banks=1, pool=pool)
    world.train()
    check_equal_to_the_trusted_third_party(world)
    votes = world.federation.score(world.parameters.run_id, scoring_input(world, world.case))
    assert np.array_equal(votes, expected_votes(world, world.case))


@needs_ray
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("RAY_USE_TLS", "0", "without RAY_USE_TLS=1"),
        ("RAY_AUTH_MODE", "", "without RAY_AUTH_MODE=token"),
        ("RAY_TLS_SERVER_KEY", "", "RAY_TLS_SERVER_KEY is not set"),
        ("RAY_TLS_SERVER_KEY", "/nowhere", "the certificates for Ray"),
    ],
)
def test_a_process_without_tls_or_token_does_not_connect(
    cluster, name, value, message, monkeypatch
):
    monkeypatch.setenv(name, value)
    with pytest.raises(ParameterError, match=message):
        WorkerPool(cluster.address)


@needs_ray
def test_an_address_where_nothing_answers_is_one_line(cluster):
    with pytest.raises(WorkerError, match="does the head of the Ray cluster run"):
        WorkerPool(f"{cluster.ip}:1")


@needs_ray
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"settings": {"RAY_USE_TLS": "1", "RAY_AUTH_MODE": "token"}}, "RAY_USAGE_STATS_ENABLED=0"),
        ({"spills": True}, "automatic_object_spilling_enabled"),
        ({"version": "0.0.1"}, r"has PV4FAD 0\.0\.1"),
    ],
)
def test_a_node_that_is_not_closed_or_of_another_version_gets_no_job(cluster, changed, message):
    from pv4fad.workers.ray_cluster import SETTINGS, Node, require_closed  # noqa: PLC0415

    good = {"settings": SETTINGS, "spills": False, "version": version("pv4fad")}
    require_closed("10.0.0.5", Node(**good))
    with pytest.raises(ParameterError, match=message):
        require_closed("10.0.0.5", Node(**good | changed))


@needs_ray
@pytest.mark.slow
def test_jobs_on_a_node_that_is_killed_run_again_elsewhere(tmp_path):
    with ray_nodes() as nodes:
        nodes.start_head(1)
        second = nodes.start_node(1)
        session = nodes.started[second].pid
        with WorkerPool(nodes.address) as pool:
            assert pool.n_workers == 2
            given = [jobs.HangingJob(tmp_path, session, i) for i in range(4)]
            results = pool.begin(jobs.hang, given)
            assert comes_true(lambda: any(tmp_path.iterdir()), MINUTES)
            nodes.kill(second)
            assert list(results) == [0, 1, 2, 3]


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("phase", ["match", "score"])
def test_a_node_killed_in_the_middle_of_a_phase_does_not_change_the_result(phase):
    """The head runs no jobs: those under way are lost with the node, and another runs them again.

    The tables have three blocks, so that several jobs are under way.
    """
    with ray_nodes() as nodes:
        nodes.start_head(0)
        node = nodes.start_node(1)
        with LosesANode(nodes.address, phase, lambda: nodes.replace(node)) as pool:
            world = make_world(seed=1, n_banks=1, pool=pool, n_declared=30_000, more_accounts=3000)
            world.train()
            check_equal_to_the_trusted_third_party(world)
            votes = world.federation.score(
                world.parameters.run_id, scoring_input(world, world.case)
            )
        assert np.array_equal(votes, expected_votes(world, world.case))
        assert pool.lost_in == {phase}
        assert nodes.started[node].returncode == -signal.SIGKILL


class LosesANode(WorkerPool):
    """Once, when two jobs of a phase are under way, or all that there are."""

    def __init__(self, address, phase, lose):
        super().__init__(address)
        self._phase, self._lose = phase, lose
        self.lost_in = set()

    def map(self, function, jobs):
        return super().map(function, self._watched(function, jobs))

    def _watched(self, function, jobs):
        n_jobs = 0
        for n_jobs, job in enumerate(jobs, 1):
            yield job
            if n_jobs == 2:
                self._lose_once(function)
        if n_jobs:
            self._lose_once(function)

    def _lose_once(self, function):
        if not self.lost_in and f"protocol.{self._phase}." in function.__module__:
            self._lose()
            self.lost_in.add(self._phase)


@needs_ray
@pytest.mark.slow
def test_a_cluster_without_nodes_or_head_ends_in_one_line(tmp_path, monkeypatch):
    with ray_nodes() as nodes:
        head = nodes.start_head(0)
        with pytest.raises(ParameterError, match="no node of the cluster runs jobs"):
            WorkerPool(nodes.address)
        node = nodes.start_node(1)
        monkeypatch.setattr("pv4fad.workers.ray_cluster._NO_NODES_S", 1.0)
        hanging = jobs.HangingJob(tmp_path, nodes.started[node].pid, 0)
        with WorkerPool(nodes.address) as pool:
            results = pool.begin(jobs.hang, [hanging])
            nodes.kill(node)
            with pytest.raises(WorkerError, match="no node left that runs jobs"):
                next(results)
            nodes.kill(head)
            with pytest.raises(WorkerError, match="does the head of the Ray cluster run"):
                list(pool.map(jobs.double, [np.array([1])]))


@needs_ray
@pytest.mark.slow
def test_the_command_line_gives_the_same_predictions_on_a_cluster(tmp_path, command_line):
    def succeed(*arguments):
        code, _, errors = command_line(*arguments)
        assert code == 0, errors

    data = tmp_path / "data"
    options = ("--transactions", 2_000, "--banks", 3, "--anomaly-rate", 0.05, "--seed", 7)
    succeed("generate", data, *options)
    predictions = {}
    with ray_nodes() as nodes:
        nodes.start_head(1)
        for workers in ("0", nodes.address):
            run = tmp_path / f"run{len(predictions)}"
            key = ("--key-file", tmp_path / "KEY", "--workers", workers)
            settings = ("--epsilon", "none", "--seed", 5, "--alert-share", 0.05)
            succeed("train", data, "--out", run, *settings, *key)
            succeed("score", run, data, "--out", run / "predictions.csv", *key)
            predictions[workers] = (run / "predictions.csv").read_bytes()
    here, there = predictions.values()
    assert here == there
    assert here.count(b"\n") > 100
