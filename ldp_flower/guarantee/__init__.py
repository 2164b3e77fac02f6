"""Code of both halves that the privacy guarantee rests on: budget, ledger, messages and keys."""
