"""Where a stranger's data come in, what forms they have, and what neighbours of them are."""
