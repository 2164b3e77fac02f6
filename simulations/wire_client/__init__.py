"""The test vectors of the wire format, for clients in other languages."""
