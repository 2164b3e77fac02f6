"""Codebooks: vectors in a ball as the number of one of finitely many public directions."""
