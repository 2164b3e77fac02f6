"""The operator's node: a Flower SuperNode whose messages the operator's app answers."""
