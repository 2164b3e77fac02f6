"""Tables of which only numbers are known."""

from ldp_flower.planning import Setting
from ldp_flower.schema import Categories, Numeric, Schema


def features_of(protocol: type, setting: Setting) -> int:
    """Return how many features a protocol is planned for.

    Raises
    ------
    ValueError
        If the setting does not say it.
    """
    if setting.num_features is None:
        raise ValueError(f"Expected num_features for {protocol.__name__}, got None.")
    return setting.num_features


def made_up_schema(num_features: int, bounds: Numeric | Categories) -> Schema:
    """Return a schema of so many numbers within [-1, 1], and a target within these bounds."""
    columns = {f"x{place}": Numeric(-1, 1) for place in range(1, num_features + 1)}
    return Schema(columns, target="y", bounds=bounds)
