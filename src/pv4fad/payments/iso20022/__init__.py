"""ISO 20022: credit transfers (pacs.008) read and written, with labels beside them."""
