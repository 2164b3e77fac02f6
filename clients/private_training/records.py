"""Conversion of a node's records to a network's inputs, with checks of arrays and of records.

The check of whole arrays depends on their shape and type, which are public. Their contents decide
only which records count, and this is visible in the operator's log only.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower.data.names import as_names
from ldp_flower.guarantee.messages import Slots
from ldp_flower.models.graph import CLASS_LOSSES, Limits, Tensor
from ldp_flower.models.network import Network
from ldp_flower.randomness import RandomSource

from ..failures import contained
from ..reply import Refusal

Rows = NDArray[Any]

NUMBERS = "biuf"  # kinds of NumPy types that count as numbers


@dataclass(frozen=True)
class Data:
    """Records with their targets, as a network takes them.

    If users are the privacy units, ``held``, shape (users, places of a user), says which places
    have a record, in the order of ``records``. Each user has the same number of places, however
    many records it has. So the size of the data is public. If records are the privacy units,
    ``held`` is None.
    """

    records: Rows
    targets: Rows
    held: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class _Some:
    """Some of a sequence's entries, each of which is read only when it is asked for."""

    values: Any
    places: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: int) -> Any:
        return self.values[int(self.places[number])]


@dataclass(frozen=True)
class Loaded:
    """A node's records and targets as they were loaded, and the users whom they are about.

    ``names`` are the users' names, and ``owners`` holds the index in ``names`` of each record's
    user. Both are empty if no owners were loaded.
    """

    records: Any
    targets: Any
    names: NDArray[np.str_]
    owners: NDArray[np.intp]

    @classmethod
    def of(cls, records: Any, targets: Any, owners: Any = None) -> Self:
        """Return the loaded data; raise ValueError if the numbers of entries differ.

        ``owners`` has the name of each record's user: all texts, or all integers. Raise ValueError
        for names of which two could be one user's (see :func:`ldp_flower.data.names.as_names`).
        """
        number = len(records)
        if number != len(targets):
            raise ValueError(f"Expected a target for each of {number} records, got {len(targets)}.")
        if owners is None:
            return cls(records, targets, np.zeros(0, str), np.zeros(0, np.intp))
        names, numbers = as_names("owners", owners)
        if number != len(numbers):
            raise ValueError(f"Expected an owner for each of {number} records, got {len(numbers)}.")
        return cls(records, targets, np.array(names, np.str_), numbers.astype(np.intp))

    def fit_for(self, form: "Form") -> Self:
        """Return the data; raise Refusal if shape or type of the arrays does not fit the network.

        This does not depend on their values.
        """
        if (wrong := form.misfit(self.records, self.targets)) is not None:
            text = f"The network takes {form}, and this node's have another form."
            raise Refusal(Refusal.MALFORMED, text, wrong)
        return self

    def of_users(
        self, form: "Form", slots: Slots, most: int, each: int, randomness: RandomSource
    ) -> tuple[Data, "Usable"]:
        """Return data with records of the users in ``slots``, and how many records are usable.

        Every user has ``each`` places for records. If a user has more records than places, some of
        its first ``most`` records are drawn, see :func:`records_of_users`.
        """
        counts = np.bincount(self.owners, minlength=len(self.names))
        usable_records = np.zeros_like(counts)
        usable_records[slots] = np.minimum(counts[slots], most)
        places = records_of_users(self.owners, usable_records, each, randomness)
        held = places >= 0
        chosen = places[held]
        records, targets = (
            values[chosen] if isinstance(values, np.ndarray) else _Some(values, chosen)
            for values in (self.records, self.targets)
        )
        rows, goals, usable = form.fitted(records, targets, len(chosen))
        data = form.nothing(len(self.names), each)
        data.records[held.ravel()], data.targets[held.ravel()] = rows, goals
        return replace(data, held=held), usable


def records_of_users(
    owners: NDArray[np.intp], usable: NDArray[np.intp], most: int, randomness: RandomSource
) -> NDArray[np.intp]:
    """Return the indices of each user's records in a round, shape (users, most).

    -1 stands for no record. ``owners`` has the number of the user whom each record is about. Of
    each user, only the first ``usable`` records are considered, shape (users,). If these are more
    than ``most``, ``most`` consecutive ones are drawn, beginning at a random one and continuing
    with the first after the last: each record is equally likely. The number of draws does not
    depend on the data.
    """
    counts = np.bincount(owners, minlength=len(usable))
    begins = np.cumsum(counts) - counts
    first = (randomness.uniforms((1, len(usable)))[0] * usable).astype(np.intp)
    turns = np.arange(most)
    places = begins[:, None] + (first[:, None] + turns) % np.maximum(usable, 1)[:, None]
    by_user = np.append(np.argsort(owners, kind="stable"), -1)
    return np.where(turns < usable[:, None], by_user[np.minimum(places, len(owners))], -1)


@dataclass(frozen=True)
class Form:
    """The form of a network's inputs: of a record and of its target, and the number of classes.

    ``classes`` is None if the target is not a class.
    """

    record: Tensor
    target: Tensor
    classes: int | None

    @classmethod
    def of(cls, network: Network, limits: Limits) -> Self:
        """Return the types and shapes of the records and targets that a network takes.

        The form also has the number of classes, or None if targets are not classes. Raise
        NetworkError if the network's check refuses it.
        """
        classes = network.graph.loss in CLASS_LOSSES
        output = network.check(limits).output
        target = network.target(limits)
        return cls(network.graph.record, target, output.shape[1] if classes else None)

    def __str__(self) -> str:
        """Return a text with the shapes of records and targets."""
        record, target = (in_words(each.shape) for each in (self.record, self.target))
        return f"records of {record} and targets of {target}"

    def nothing(self, num_users: int, each: int | None) -> Data:
        """Return data without records: users have ``each`` empty places, or none if it is None."""
        number = 0 if each is None else num_users * each
        records, targets = (
            np.zeros((number, *tensor.shape), tensor.dtype) for tensor in (self.record, self.target)
        )
        return Data(records, targets, None if each is None else np.zeros((num_users, each), bool))

    def misfit(self, records: Any, targets: Any) -> str | None:
        """Return why arrays do not fit the network's inputs, from their shape and type alone.

        Return None if they fit. An array that does not hold numbers, or whose rows have another
        shape than the network takes, does not fit. Lists and arrays of objects return None here:
        :meth:`fitted` checks their entries one by one.
        """
        for name, values, tensor in (
            ("records", records, self.record),
            ("targets", targets, self.target),
        ):
            if not isinstance(values, np.ndarray) or values.dtype.kind == "O":
                continue
            if values.dtype.kind not in NUMBERS:
                return f"Expected {name} that are numbers, got {values.dtype}."
            if values.shape[1:] != tensor.shape:
                got = in_words(values.shape[1:])
                return f"Expected {name} of {in_words(tensor.shape)}, got {got}."
        return None

    def fitted(self, records: Any, targets: Any, most: int) -> tuple[Rows, Rows, "Usable"]:
        """Return the first ``most`` records, their targets, and how many of them count.

        Each record is converted separately. A record that does not have the network's shape, or
        holds anything but numbers, keeps its place and counts as 0.
        """
        number = min(len(records), most)
        rows, usable = _converted(records, self.record, number)
        goals, known = _converted(targets, self.target, number)
        goals[~(usable & known)] = -1 if self.target.dtype == "int64" else np.nan
        wrong = "that is not finite" if self.classes is None else f"outside 0..{self.classes - 1}"
        meant = self.valid(goals)
        faults = {
            f"are not numbers of {in_words(self.record.shape)}": ~usable,
            "hold a number that is not finite": usable & ~_each(np.isfinite(rows), np.all),
            f"have a target that is not numbers of {in_words(self.target.shape)}": usable & ~known,
            f"have a target {wrong}": usable & known & ~meant,
        }
        count = number - int(np.count_nonzero(np.any([*faults.values()], axis=0)))
        found = {what: int(np.count_nonzero(each)) for what, each in faults.items() if any(each)}
        return rows, goals, Usable(number, count, found)

    def valid(self, targets: Rows) -> NDArray[np.bool_]:
        """Return a mask of the records whose target, in the network's type, counts in the loss.

        A target of numbers counts if all of them are finite, and a target of classes if at least
        one of its entries is a valid class.
        """
        if self.classes is None:
            return _each(np.isfinite(targets), np.all)
        return _each((targets >= 0) & (targets < self.classes), np.any)


@dataclass(frozen=True)
class Usable:
    """Number of records, number of records that count, and numbers of the others by their fault.

    The object as text is for the operator's log only.
    """

    number: int
    count: int
    faults: Mapping[str, int]

    def __str__(self) -> str:
        others = ", ".join(f"{number} {what}" for what, number in self.faults.items())
        return f"Of {self.number} records {self.count} count{': ' if others else ''}{others}."


def _converted(values: Any, tensor: Tensor, number: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the first ``number`` values, zeros for invalid ones, and a mask of the valid ones."""
    found = np.zeros((number, *tensor.shape), tensor.dtype)
    usable = np.zeros(number, bool)
    with np.errstate(all="ignore"):
        if isinstance(values, np.ndarray) and values.dtype.kind in NUMBERS:
            if values.shape[1:] == tensor.shape:
                found[:] = values[:number]
                usable = _kept(values[:number], found)
                found[~usable] = 0
            return found, usable
        for i in range(number):
            with contained(lambda: None):  # a record may be any object, and fail in any way
                row = np.asarray(values[i])
                if row.shape == tensor.shape and row.dtype.kind in NUMBERS:
                    one = row[None].astype(tensor.dtype)
                    if _kept(row[None], one)[0]:
                        found[i], usable[i] = one[0], True
    return found, usable


def _kept(values: Rows, found: Rows) -> NDArray[np.bool_]:
    """Return a mask of the rows that the conversion to ``found`` keeps: 1.5 is not a class."""
    if found.dtype.kind != "i":
        return np.ones(len(found), bool)
    return _each(values == found, np.all)


def _each(holds: Rows, together: Any) -> NDArray[np.bool_]:
    """Return a mask of the records for which all (np.all), or any, of their ``holds`` are true."""
    return np.asarray(together(holds.reshape(len(holds), math.prod(holds.shape[1:])), axis=1), bool)


def in_words(shape: tuple[int, ...]) -> str:
    """Return a shape as text, such as ``3 x 32 x 32``."""
    return " x ".join(map(str, shape)) or "one number"
