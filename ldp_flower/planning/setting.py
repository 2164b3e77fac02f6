"""Public numbers about people who have not been asked anything."""

from dataclasses import dataclass, fields

from ..validation import check_fraction, check_integer, check_number, make_plain


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Public numbers about people who have not been asked anything.

    Parameters
    ----------
    num_users : int
        How many people there are.
    rows_per_user : float (default: 1)
        Rows that one of them holds, in the mean.
    num_features : int, optional
        Numbers that one row has beside its target; of items, how many there are to choose from.
    quality : float, optional
        What the same model would reach without privacy: R2 of a regression, AUC of classes.
        By default what the protocol's plan says that it assumes.
    """

    num_users: int
    rows_per_user: float = 1
    num_features: int | None = None
    quality: float | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        check_integer("num_users", self.num_users, 1)
        check_number("rows_per_user", self.rows_per_user)
        if not 1 <= self.rows_per_user <= 1e9:
            raise ValueError(f"Expected 1 <= rows_per_user <= 1e+09, got {self.rows_per_user}.")
        if self.num_features is not None:
            check_integer("num_features", self.num_features, 1)
        if self.quality is not None:
            check_fraction("quality", self.quality)

    def given(self) -> set[str]:
        """Return the names of the numbers that are not left at their defaults."""
        return {each.name for each in fields(self) if getattr(self, each.name) != each.default}
