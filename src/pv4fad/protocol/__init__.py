"""The phases of the protocol, one file each: local steps without network, clock or log."""
