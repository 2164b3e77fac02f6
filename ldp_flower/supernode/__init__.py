"""The operator's node: Flower's SuperNode, whose messages the operator's own app answers."""
