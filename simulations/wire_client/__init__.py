"""A client in another language, and the test vectors of the wire format."""
