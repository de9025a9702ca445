"""What the payment network does around the protocol: prepare, train, score, refresh."""
