"""Models of real tables: what runs of ``simulations.studies.grouped_data`` lost, as published."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from ldp_flower.planning import Setting
from ldp_flower.strategies import LdpStrategy, PrivateClassification, PrivateRegression

from ..grouped_data import methods
from ..grouped_data.schemas import DECLARED
from .cell import Judged

_PUBLISHED = Path(__file__).parents[1] / "grouped_data" / "published" / "runs.csv"


@dataclass(frozen=True)
class Cell(Judged):
    """A protocol and a table."""

    protocol: str
    table: str
    epsilon: float

    @property
    def setting(self) -> Setting:
        """What is publicly known of it, and what a model reaches without privacy."""
        return Setting(
            num_users=int(_runs(self.table, self.epsilon)["users"].iloc[0]),
            rows_per_user=DECLARED[self.table].rows_per_user,
            quality=float(_best(self.table).median()),
        )

    @property
    def strategy(self) -> LdpStrategy[Any]:
        """The protocol as the study runs it."""
        schema = DECLARED[self.table].schema
        if DECLARED[self.table].is_binary:
            return PrivateClassification(schema, epsilon=self.epsilon)
        return PrivateRegression(schema, epsilon=self.epsilon)

    @property
    def seeds(self) -> int:
        """How many splits of a table's users were published."""
        return len(_runs(self.table, self.epsilon))


def cells() -> Iterator[Cell]:
    """Yield every table at every epsilon of which there are runs."""
    own = _published()
    own = own[own["method"] == methods.OURS]
    for table, epsilon in own[["data", "epsilon"]].drop_duplicates().itertuples(index=False):
        binary = DECLARED[table].is_binary
        protocol = PrivateClassification if binary else PrivateRegression
        yield Cell(protocol.__name__, table, float(epsilon))


def errors(cell: Cell, seed: int) -> float:
    """Return what the run on a split lost."""
    own = _runs(cell.table, cell.epsilon).set_index("seed")["score"]
    return float(_best(cell.table).median() - own.iloc[seed])


@cache
def _published() -> pd.DataFrame:
    return pd.read_csv(_PUBLISHED)


def _runs(table: str, epsilon: float) -> pd.DataFrame:
    runs = _published()
    own = (runs["data"] == table) & (runs["method"] == methods.OURS)
    return runs[own & (runs["epsilon"] == epsilon)]


def _best(table: str) -> "pd.Series[float]":
    """Return the scores of the same model without privacy."""
    runs = _published()
    return runs[(runs["data"] == table) & (runs["method"] == methods.NO_PRIVACY)]["score"]
