"""Replies to a run's messages as a server sees them, and their frequencies over several runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Array, Message

from ...validation import Floats
from ..replies import parts_of
from .variants import Variant

#: Suffix of a text's path for the text's length, which ciphers and random texts reveal as well.
LENGTH = ": length"
#: Suffix of the path of floats for their last bits, which noise must change as well.
LAST_BITS = ": last bits"
_LOW = {2: 0xF, 4: 0xFF, 8: 0xFFFF}  # masks of a quarter of a float's bits, by its bytes
_SOON = 1.0  # seconds within which a time counts as the time of the reply

#: Number of a message, and name of a part of the reply to it.
Place = tuple[int, str]
LARGEST = 1e100  # limit of numbers, so that squares stay finite


@dataclass
class Transcript:
    """Everything that a server sees of the replies to a run's messages: their form and numbers."""

    # The form: names and order of records and keys, types, shapes, texts, errors, metadata.
    form: dict[Place, str] = field(default_factory=dict)
    numbers: dict[Place, Floats] = field(default_factory=dict)

    def add(
        self, number: int, reply: Message | None, deadline: float, now: float, own: bool
    ) -> None:
        """Add what a server sees of the reply to a message, which lives until a deadline.

        ``now`` is the time. If the reply is this library's ``own``, its values are left out.
        """
        if reply is None:
            self.form[number, "reply"] = "none"
            return
        form, values = parts_of(reply, deadline)
        created = reply.metadata.created_at
        form["metadata: created at"] = "now" if abs(created - now) < _SOON else created
        for path, value in values.items():
            for part, made in _described(value).items():
                if isinstance(made, np.ndarray) and not own:
                    self.numbers[number, path + part] = made
                elif (part and not isinstance(made, np.ndarray)) or not own:
                    form[path + part] = made
        self.form |= {(number, path): repr(part) for path, part in form.items()}
        self.form[number, "reply"] = str(form["reply"])


def _described(value: Any) -> dict[str, Any]:
    """Return what a server sees of a value in a reply, by the suffix that its path gets.

    Numbers are given as arrays of floats.
    """
    form: dict[str, Any] = {}
    if isinstance(value, Array):
        try:
            array = np.asarray(value.numpy())
        except Exception as error:  # an array of a type that NumPy's reader refuses
            return {"": (value.dtype, tuple(value.shape), type(error).__name__, value.data)}
        form |= {": type": (str(array.dtype), array.flags.f_contiguous), ": shape": array.shape}
    else:
        array = np.asarray(value)
        form[": type"] = type(value).__name__
        if isinstance(value, list):
            form[": type"] = f"list of {type(value[0]).__name__}" if value else "list"
            form[": shape"] = len(value)
    if array.dtype.kind not in "fiub":
        if isinstance(value, Array):
            return form | {"": array.tobytes()}
        texts = value if isinstance(value, list) else [value]
        return form | {"": value, LENGTH: [len(text) for text in texts]}
    flat = array.ravel()
    floats = flat.astype(np.float64)
    if len(bad := np.flatnonzero(~np.isfinite(floats))):  # a NaN can carry a message in its bits
        form[": not finite"] = [(int(i), flat[i].tobytes().hex()) for i in bad[:1000]]
    form[""] = np.nan_to_num(floats, posinf=1e300, neginf=-1e300)
    if array.dtype.kind == "f":
        bits = np.ascontiguousarray(flat).view(f"u{array.dtype.itemsize}")
        form[LAST_BITS] = (bits & _LOW[array.dtype.itemsize]).astype(np.float64)
    return form


class Look:
    """Summary of two or more runs on one variant of the data, for comparison with other variants.

    ``forms`` counts the runs with each form of each part of a reply. ``numbers`` are means and
    variances over the runs.
    """

    def __init__(self, variant: Variant, runs: Sequence[Transcript]) -> None:
        self.variant, self.count = variant, len(runs)
        self.forms = Counter(piece for run in runs for piece in run.form.items())
        #: Means and variances. The variance is 0 for numbers that are the same on all runs only.
        self.numbers: dict[Place, tuple[Floats, Floats]] = {}
        for place in runs[0].numbers:
            found = [run.numbers[place] for run in runs if place in run.numbers]
            if len(found) < self.count or len({len(values) for values in found}) > 1:
                continue
            rows = np.stack(found)
            varies = (rows != rows[0]).any(axis=0)
            limited = np.clip(rows, -LARGEST, LARGEST)
            mean = np.where(varies, limited.mean(axis=0), rows[0])
            variance = np.maximum(limited.var(axis=0, ddof=1), np.finfo(np.float64).tiny)
            self.numbers[place] = mean, np.where(varies, variance, 0.0)

    @property
    def varies(self) -> bool:
        """True if any form or number varies over the runs."""
        forms = any(count < self.count for count in self.forms.values())
        return forms or any(variance.any() for _, variance in self.numbers.values())

    def certain(self) -> dict[Place, str | None]:
        """Return the form of each part of a reply; it is None where the form varies over runs."""
        return {
            place: form if count == self.count else None
            for (place, form), count in self.forms.items()
        }

    def apart(self, other: "Look") -> dict[Place, Floats]:
        """Return squared distances to another variant's mean numbers, over the noise's variance.

        Large ones show which numbers a classifier should compare.
        """
        found = {}
        for place in self.numbers.keys() & other.numbers.keys():
            (one, first), (two, second) = self.numbers[place], other.numbers[place]
            if one.shape == two.shape and not place[1].endswith(LAST_BITS):
                squared = np.clip(one - two, -LARGEST, LARGEST) ** 2
                # Noise that is not seen in n runs may still have a variance of 1 / n of the square.
                spread = (first + second) / 2 + squared / self.count
                found[place] = squared / np.where(spread > 0, spread, 1.0)
        return found

    def distance(self, other: "Look") -> float:
        """Return how far two data sets' replies are apart: in means, noise and forms.

        The pair of data sets with the largest distance is given to the classifiers.
        """
        total = 0.0
        for place, squared in self.apart(other).items():
            first, second = self.numbers[place][1], other.numbers[place][1]
            noisy = (first > 0) & (second > 0)
            unlike = int(np.sum((first > 0) != (second > 0)))  # noise on one data set only
            total += float(squared.sum()) + 2 * (unlike - len(squared) / self.count)
            if noisy.any():
                ratio = float(np.mean(np.log(first[noisy] / second[noisy])))
                total += int(noisy.sum()) * ratio**2 / 2
        for piece in self.forms | other.forms:
            here, there = self.forms[piece], other.forms[piece]
            if max(here, there) > 1:  # pieces that are never seen twice carry no information
                total += (here - there) ** 2 / self.count
        return total
