"""Models of a table: regression, classification, and the evaluation of a given model."""
