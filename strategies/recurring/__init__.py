"""The same question at every collection, with one budget for all of them."""
