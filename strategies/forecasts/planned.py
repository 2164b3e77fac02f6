"""What plans read in a setting, and the table that it stands for."""

from ldp_flower.planning import Setting
from ldp_flower.schema import Categories, Numeric, Schema


def rows_of(setting: Setting, guessed: int) -> float:
    """Return how many rows a user holds: as planned for, or else as the strategy guesses."""
    return setting.rows_per_user if "rows_per_user" in setting.given() else guessed


def features_of(setting: Setting, protocol: type) -> int:
    """Return the number of features, or say that it is needed."""
    if setting.num_features is None:
        raise ValueError(f"Expected num_features for {protocol.__name__}, got None.")
    return setting.num_features


def made_up_schema(num_features: int, bounds: Numeric | Categories) -> Schema:
    """Return a schema of so many numbers within [-1, 1], and a target within these bounds."""
    columns = {f"x{place}": Numeric(-1, 1) for place in range(1, num_features + 1)}
    return Schema(columns, target="y", bounds=bounds)
