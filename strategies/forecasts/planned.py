"""What plans read in a setting."""

from ldp_flower.expectation import Setting


def rows_of(setting: Setting, guessed: int) -> float:
    """Return how many rows a user holds: as planned for, or else as the strategy guesses."""
    return setting.rows_per_user if "rows_per_user" in setting.given() else guessed


def features_of(setting: Setting, protocol: type) -> int:
    """Return the number of features, or say that it is needed."""
    if setting.num_features is None:
        raise ValueError(
            f"Expected num_features, which a plan of {protocol.__name__} needs, got None."
        )
    return setting.num_features
