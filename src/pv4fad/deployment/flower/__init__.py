"""Flower as carrier: the hub is a SuperLink, a node is a SuperNode (docs/operate/deployment.md).

programs          starts SuperLink and SuperNode, registers nodes, hands over jobs
guarded           the process in which each of them runs: it accepts no app but ours
app/              our Flower app, which names the two modules below
server_app        the relay of a job, with Flower's grid; `asking`: one request at a time
client_app        between a SuperNode and the station beside it
station_socket    where it finds the station
"""
