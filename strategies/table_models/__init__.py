"""Models of one's own table: which method, what it finds, and how sure that is."""
