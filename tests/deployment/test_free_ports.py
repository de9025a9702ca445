"""Ports that tests and demos give to processes: nobody else takes them before they are used."""

import socket

from pv4fad.cli.federation_demo import free_ports

FIRST_OF_OUTGOING = 32_768  # of Linux; other systems begin higher


def test_ports_are_different_and_below_those_of_outgoing_connections():
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(1024 < port < FIRST_OF_OUTGOING for port in ports)


def test_a_port_in_use_is_not_given(monkeypatch):
    (used, free) = free_ports(2)
    monkeypatch.setattr("pv4fad.cli.federation_demo._PORTS", [used, free])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", used))
        taken.listen()
        assert free_ports(1) == [free]
