"""What models of tables share: columns brought to one scale, and how good a model is."""
