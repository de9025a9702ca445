"""Each party of a finished run as an attacker, with what its store holds, against the truth.

An attacker knows the protocol, the public parameters and everything that its own store and files
hold, and does the best with it that we know of.  The truth is only used to see how well it does.
A finding says what the attacker got, what it could have guessed without the run, and what the
claim allows.

    belief, network, labels, votes    the payment network: classes of records, and who has them
    last_record, epsilon              the payment network, knowing all records but one
    stores, worlds, lab               banks and aggregator: anything about payments
    play                              all of them
"""
