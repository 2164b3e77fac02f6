"""The data: Wang & Gu's design, silos of it, and real tables with very many features."""

import unicodedata
from collections import Counter
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.datasets import load_digits

from ldp_flower import GeneratedUsers, Users

from ...harness.paper_data import E2006, RCV1, SparseData

Floats = NDArray[np.floating]

NOISE = 0.1**0.5  # standard deviation of the targets given the features
_NAME_FEATURES = 2000
_TRAINING = 0.8


class Table(NamedTuple):
    """Records to learn from, and some to test on."""

    features: Floats
    targets: Floats
    test_features: Floats
    test_targets: Floats


def coefficients(dim: int, sparsity: int, seed: int) -> NDArray[np.float64]:
    """Return standard normal coefficients at random places."""
    rng = np.random.default_rng([seed, 1])
    theta = np.zeros(dim)
    theta[rng.choice(dim, sparsity, replace=False)] = rng.standard_normal(sparsity)
    return theta


def records(
    theta: NDArray[np.float64], rows: int, link: str, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return features uniform in [-1, 1], and targets by the linear or the logistic model."""
    x = 2 * rng.random((rows, len(theta)), np.float32) - 1
    u = x @ theta.astype(np.float32)
    if link == "logistic":
        return x, (rng.random(rows) < expit(u)).astype(np.float32)
    return x, u + NOISE * rng.standard_normal(rows, np.float32)


def silos(
    theta: NDArray[np.float64], rows: int, num_silos: int, link: str, seed: int
) -> GeneratedUsers:
    """Return silos whose records exist only while they are asked."""

    def generate(indices: NDArray[np.int64]) -> Users:
        streams = (np.random.default_rng([seed, 2, int(index)]) for index in indices)
        x, y = zip(*(records(theta, rows, link, rng) for rng in streams), strict=True)
        return Users(np.concatenate(x), np.concatenate(y), rows * np.arange(len(x) + 1))

    return GeneratedUsers(num_silos, len(theta), generate, 0)


def _split(x: Floats, y: Floats, seed: int) -> Table:
    order = np.random.default_rng([seed, 3]).permutation(len(x))
    first = int(_TRAINING * len(x))
    train, test = order[:first], order[first:]
    return Table(x[train], y[train], x[test], y[test])


class Files(NamedTuple):
    """A data set of the paper's, from files, and what the paper takes of it."""

    data: SparseData
    train: str
    test: str
    num_features: int
    most_tests: int


FILES = {
    "e2006": Files(E2006, "E2006.train", "E2006.test", 25_000, 3308),
    "rcv1": Files(RCV1, "rcv1_train.binary", "rcv1_test.binary", 20_000, 10_000),
}


def table(name: str, seed: int, folder: Path | None = None) -> Table:
    """Return ``names`` or ``digits``, split into four fifths and one, or one of ``FILES``."""
    if name in FILES:
        assert folder is not None
        return _of_files(FILES[name], folder, seed)
    return _split(*(_names() if name == "names" else _digits()), seed)


def _of_files(files: Files, folder: Path, seed: int) -> Table:
    """Return half of the training records (the paper's private ones), some features and tests."""
    rng = np.random.default_rng([seed, 4])
    columns = np.sort(rng.choice(files.data.num_features, files.num_features, replace=False))

    def chosen(name: str, most: int | None) -> tuple[Floats, Floats]:
        plain = folder / name
        x, y = files.data.load(plain if plain.exists() else folder / f"{name}.bz2")
        rows = rng.permutation(len(y))[: (len(y) + 1) // 2 if most is None else most]
        x = x[rows][:, columns].toarray().astype(np.float32)
        return x, y[rows] if files.data is E2006 else (y[rows] > 0).astype(np.float32)

    return Table(*chosen(files.train, None), *chosen(files.test, files.most_tests))


@lru_cache(maxsize=1)
def _digits() -> tuple[Floats, Floats]:
    """Return all pixels, moved to [-1, 1], and their products; 1 for a digit from 5 on."""
    digits = load_digits()
    pixels = digits.data / 8 - 1
    first, second = np.triu_indices(pixels.shape[1], 1)
    products = pixels[:, first] * pixels[:, second]
    x = np.concatenate([np.ones((len(pixels), 1)), pixels, products], axis=1)
    return x, (digits.target >= 5).astype(np.float64)


@lru_cache(maxsize=1)
def _names() -> tuple[Floats, Floats]:
    """Return which of the 2,000 commonest letter groups a first name has; 1 if it is a woman's.

    The names are those of the package gender-guesser.
    """
    try:
        lines = (
            (resources.files("gender_guesser") / "data" / "nam_dict.txt")
            .read_text("utf-8")
            .splitlines()
        )
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("The names need: pip install gender-guesser") from error
    women: dict[str, bool] = {}
    for line in lines:
        kind = line[:2].strip()
        letters = unicodedata.normalize("NFD", line[3:29].strip().split("+")[0].lower())
        name = "".join(letter for letter in letters if letter.isascii() and letter.isalpha())
        if kind in ("M", "F") and len(name) >= 3:
            women[name] = kind == "F"
    names = sorted(women)
    groups = [_groups(name) for name in names]
    counts = Counter(group for some in groups for group in sorted(some))
    column = {group: i for i, (group, _) in enumerate(counts.most_common(_NAME_FEATURES))}
    x = np.zeros((len(names), len(column)), np.float32)
    for row, some in zip(x, groups, strict=True):
        row[[column[group] for group in some if group in column]] = 1
    return x, np.array([women[name] for name in names], np.float32)


def _groups(name: str) -> set[str]:
    """Return a name's letters and pairs of letters, its beginnings and endings, and a constant."""
    pairs = {name[i : i + 2] for i in range(len(name) - 1)}
    ends = {f"-{name[-k:]}" for k in (1, 2, 3)} | {f"{name[:k]}-" for k in (1, 2)}
    return set(name) | pairs | ends | {""}
