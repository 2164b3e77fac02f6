"""What the guarantee rests on, on both sides: budget and ledger, messages, keys, users."""
