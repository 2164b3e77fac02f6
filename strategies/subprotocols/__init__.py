"""Subprotocols: sequences of questions that several protocols share."""
