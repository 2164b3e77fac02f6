"""The grids of the paper's figures and the settings of the table."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .user_level.population import Setting

DEFAULT = Setting()
EPSILONS = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0)
USERS = (200, 300, 400, 500, 600, 700, 800)
RECORDS = (50, 75, 100, 125, 150, 175, 200)
DIMS = (16, 32, 64, 128, 256, 512, 1024)

Curve = dict[float, float]

# 2-SLR of Ma, Jia & Yang (2024), read off the figures by eye, to about 0.01. Their runs
# choose parameters by the true error, and the published code spends more than the
# epsilon on the axis.
_BY_EPSILON = dict(zip(EPSILONS, (0.56, 0.38, 0.30, 0.245, 0.19, 0.225), strict=True))
_BY_USERS = dict(zip(USERS, (0.31, 0.30, 0.245, 0.20, 0.22, 0.197, 0.20), strict=True))
_BY_RECORDS = dict(zip(RECORDS, (0.41, 0.30, 0.26, 0.225, 0.17, 0.12, 0.165), strict=True))
_BY_DIM = {
    100: dict(zip(DIMS, (0.115, 0.115, 0.16, 0.19, 0.26, 0.33, 0.48), strict=True)),
    200: dict(zip(DIMS, (0.085, 0.095, 0.07, 0.13, 0.17, 0.145, 0.205), strict=True)),
}
_F1_BY_DIM = dict(zip(DIMS, (0.85, 0.84, 0.745, 0.725, 0.66, 0.60, 0.64), strict=True))


@dataclass(frozen=True)
class Grid:
    """A panel: how the error changes with one thing.

    Attributes
    ----------
    title, label : str
        What is held fixed, and what lies on the horizontal axis.
    settings : dict of float to Setting
        By position on the axis.
    published : dict of float to float, optional
        The paper's curve.
    measure : str (default: "error")
        Or ``"f1"``.
    """

    title: str
    label: str
    settings: dict[float, Setting]
    published: Curve | None = None
    measure: str = "error"

    @property
    def is_wide(self) -> bool:
        """Whether the axis spans more than an order of magnitude, and is logarithmic."""
        return max(self.settings) > 10 * min(self.settings)


def _varied(base: Setting, name: str, values: Iterable[float]) -> dict[float, Setting]:
    return {value: replace(base, **{name: value}) for value in values}


_CORRELATED = replace(DEFAULT, design="ar")
_RICH = replace(DEFAULT, samples_per_user=200)

GRIDS = {
    "epsilon": Grid(
        "n=400, m=100, d=256", "epsilon", _varied(DEFAULT, "epsilon", EPSILONS), _BY_EPSILON
    ),
    "users": Grid(
        "m=100, d=256, eps=4", "users n", _varied(DEFAULT, "num_users", USERS), _BY_USERS
    ),
    "records": Grid(
        "n=400, d=256, eps=4",
        "records per user m",
        _varied(DEFAULT, "samples_per_user", RECORDS),
        _BY_RECORDS,
    ),
    "dim": Grid("n=400, m=100, eps=4", "features d", _varied(DEFAULT, "dim", DIMS), _BY_DIM[100]),
    "dim-m200": Grid(
        "n=400, m=200, eps=4", "features d", _varied(_RICH, "dim", DIMS), _BY_DIM[200]
    ),
    "correlated": Grid(
        "AR(0.6), n=400, m=100, d=256", "epsilon", _varied(_CORRELATED, "epsilon", EPSILONS)
    ),
    "f1": Grid(
        "n=400, m=100, eps=4", "features d", _varied(DEFAULT, "dim", DIMS), _F1_BY_DIM, "f1"
    ),
    "f1-correlated": Grid(
        "AR(0.6), n=400, m=100, eps=4",
        "features d",
        _varied(_CORRELATED, "dim", (16, 64, 256, 1024)),
        measure="f1",
    ),
    "spread": Grid(
        "n m = 40,000 records, d=256, eps=4",
        "users n",
        {
            n: replace(DEFAULT, num_users=n, samples_per_user=40_000 // n)
            for n in (100, 200, 400, 800, 1600)
        },
    ),
}

TABLE = {
    "n=400, m=100, d=256, eps=4": (DEFAULT, 0.245),
    "eps=6": (replace(DEFAULT, epsilon=6.0), 0.19),
    "eps=2": (replace(DEFAULT, epsilon=2.0), 0.30),
    "eps=2, scale declared": (replace(DEFAULT, epsilon=2.0, scale="declared"), 0.30),
    "eps=1": (replace(DEFAULT, epsilon=1.0), 0.38),
    "n=200": (replace(DEFAULT, num_users=200), 0.31),
    "n=800": (replace(DEFAULT, num_users=800), 0.20),
    "m=50": (replace(DEFAULT, samples_per_user=50), 0.41),
    "m=200": (_RICH, 0.165),
    "d=16": (replace(DEFAULT, dim=16), 0.115),
    "d=64": (replace(DEFAULT, dim=64), 0.16),
    "d=1024": (replace(DEFAULT, dim=1024), 0.48),
    "d=1024, m=200": (replace(_RICH, dim=1024), 0.205),
    "d=1024, n=10,000": (replace(DEFAULT, dim=1024, num_users=10_000), None),
    "unequal, random signs": (replace(DEFAULT, sizes="unequal", signs="random"), None),
    "AR(0.6)": (_CORRELATED, None),
}

QUICK = ("n=400, m=100, d=256, eps=4", "eps=6", "eps=2", "n=800", "m=200", "d=64")


def settings_of(names: Iterable[str]) -> list[Setting]:
    """Return the distinct settings of grids; ``"table"`` and ``"quick"`` are such, too."""
    chosen: dict[Setting, None] = {}
    for name in names:
        if name == "table":
            found = [setting for setting, _ in TABLE.values()]
        elif name == "quick":
            found = [TABLE[row][0] for row in QUICK]
        else:
            found = list(GRIDS[name].settings.values())
        chosen |= dict.fromkeys(found)
    return list(chosen)
