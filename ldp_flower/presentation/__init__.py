"""How anything is shown to people: words, numbers, charts, and pages made of them."""
