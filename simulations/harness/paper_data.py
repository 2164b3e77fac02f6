"""The real data of the papers, from files that the user has: nothing is fetched here.

An error names the file, what is expected there, and which publication describes the data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from ldp_flower import Users

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SparseData:
    """Records in the format of libsvm: a target, then ``column:value`` of what is not 0.

    Attributes
    ----------
    name, described_by : str
        What it is called, and where it is described.
    num_features : int
        Number of columns, counted from 1 in the file.
    targets : str
        What targets are.
    is_target : callable
        Which of an array of targets are such.
    """

    name: str
    described_by: str
    num_features: int
    targets: str
    is_target: Callable[[Floats], NDArray[np.bool_]]

    def load(self, path: Path) -> tuple[csr_matrix, Floats]:
        """Return features and targets; the file may be compressed (``.bz2``, ``.gz``)."""
        expected = (
            f"{self.targets}, and columns 1 to {self.num_features:,}, in the format of libsvm"
        )
        try:
            features, targets = load_svmlight_file(
                path, n_features=self.num_features, zero_based=False
            )
        except (OSError, EOFError, ValueError) as error:
            raise _refused(path, self.name, expected, str(error), self.described_by) from error
        if not len(targets):
            raise _refused(path, self.name, expected, "no record", self.described_by)
        if not (right := self.is_target(targets)).all():
            got = f"the target {targets[~right][0]:g}"
            raise _refused(path, self.name, expected, got, self.described_by)
        return features, targets


@dataclass(frozen=True)
class GroupedData:
    """Records of users, as the published code of Ma, Jia & Yang (2024) reads them.

    CSV without names of columns: the target, the features, and the number of the user.

    Attributes
    ----------
    name, file : str
        What it is called, in the paper and by its code.
    """

    name: str
    file: str

    def load(self, folder: Path) -> Users:
        """Return the users, in the order of their numbers."""
        path = folder / self.file
        expected = "rows of a target, features and the number of a user, without a head"
        where = f"Ma, Jia & Yang (ICML 2024), appendix E.3, as {self.name}"
        try:
            rows = np.loadtxt(path, delimiter=",", ndmin=2)
        except (OSError, ValueError) as error:
            raise _refused(path, self.name, expected, str(error), where) from error
        if bad := _unlike_users(rows):
            raise _refused(path, self.name, expected, bad, where)
        return Users.from_rows(rows[:, 1:-1], rows[:, 0], groups=rows[:, -1].astype(np.int64))


def _unlike_users(rows: Floats) -> str:
    """Return what keeps rows from being users' records, nothing if they are."""
    if not len(rows):
        return "no record"
    if rows.shape[1] < 3:
        return f"{rows.shape[1]} columns"
    if not np.isfinite(rows).all():
        return "numbers that are not finite"
    if (odd := rows[rows[:, -1] != np.rint(rows[:, -1]), -1]).size:
        return f"the user {odd[0]:g}"
    return ""


def _refused(path: Path, name: str, expected: str, got: str, where: str) -> ValueError:
    said = f"Expected {name} in {path}: {expected}; got: {got.rstrip('.')}."
    return ValueError(f"{said} It is described by {where}.")


COVERTYPE = SparseData(
    name="Covertype",
    described_by="Blackard & Dean (1999), Computers and Electronics in Agriculture 24",
    num_features=54,
    targets="classes 1 to 7",
    is_target=lambda y: np.isin(y, np.arange(1, 8)),
)
RCV1 = SparseData(
    name="RCV1",
    described_by="Lewis, Yang, Rose & Li (2004), Journal of Machine Learning Research 5",
    num_features=47_236,
    targets="classes -1 and 1",
    is_target=lambda y: np.isin(y, (-1, 1)),
)
E2006 = SparseData(
    name="E2006-tfidf",
    described_by="Kogan, Levin, Routledge, Sagi & Smith (NAACL 2009)",
    num_features=150_360,
    targets="logarithms of volatilities",
    is_target=np.isfinite,
)
USER_DATA = {
    each.name: each
    for each in (
        GroupedData("Airline", "airlines.csv"),
        GroupedData("Loan", "loandefault.csv"),
        GroupedData("MIP", "mip.csv"),
        GroupedData("Taxi", "taxi.csv"),
        GroupedData("Wine", "wine.csv"),
        GroupedData("Yolanda", "yolanda.csv"),
    )
}
