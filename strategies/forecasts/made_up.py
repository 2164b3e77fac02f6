"""Tables of which only numbers are known."""

from ldp_flower.schema import Categories, Numeric, Schema


def made_up_schema(num_features: int, bounds: Numeric | Categories) -> Schema:
    """Return a schema of so many numbers within [-1, 1], and a target within these bounds."""
    columns = {f"x{place}": Numeric(-1, 1) for place in range(1, num_features + 1)}
    return Schema(columns, target="y", bounds=bounds)
