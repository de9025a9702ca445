"""Notify: the payment network discloses one of its alerts to the bank concerned, on purpose.

    1. A person at the payment network decides to hand an alert over.
    2. S → B:  payment reference, account, level; padded to one size
    3. B keeps it for its people, and sends a receipt

B learns these three, and that S considers the payment suspicious.  Nobody else learns more than
that S sent something of this size to B: how many notices a bank gets, and when, can be seen by who
carries the messages.  Nothing flows back but the receipt: B's record is not asked about, and no ε
is spent.
"""
