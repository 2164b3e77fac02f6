"""Privacy budget: the operator's policy with its lifetime limits, and the cost of a query."""

import math
import re
import sys
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Self

from ..randomizers import NodeSum, Randomizer, RecordMechanism
from ..randomizers.sums import PARTS
from ..validation import Count, PlainFields, check_choice, check_integer, check_truth

#: Privacy units of a policy: all data of a user, or each record of a silo.
UNITS = ("user", "record")
#: Where noise may be added: to each user's value, once to the sum over a node's users, or shared by
#: nodes, of whose sums only the total is visible. Each place also allows the places before it.
NOISE = ("user", "node", "shared")
_OTHER_SETTINGS = {"ledger-path", "public-metrics", "rehearsal", "user-id"}
_SECONDS = {"h": 3600, "d": 86_400}
_ALONE = 4.0  # default of max-epsilon-alone / max-epsilon; enough for 12 nodes at epsilon .25 to 2
_NEARLY = 0.7  # least similarity by difflib of a misspelt key: max-rowz is similar to max-rows

in_process_grid: ContextVar[bool] = ContextVar("in_process_grid", default=False)


def in_simulation() -> bool:
    """Return True if the caller runs in the in-process grid or in a Ray actor of Flower's engine.

    The node's configuration does not matter for this. Outside of a simulation, a client requires
    its operator's policy and ledger and refuses a seed.
    """
    if in_process_grid.get():
        return True
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return ray.get_runtime_context().get_actor_id() is not None


@dataclass(frozen=True)
class Cost(PlainFields):
    """A privacy cost, or the sum of several by basic composition.

    A plan is a sequence of reports that is paid once, such as the rounds of a training. A cost with
    the name of a ``plan`` covers all its ``steps``, and its first report pays for all of them. One
    report uses up ``weight`` of the steps. ``alone`` is the epsilon if all other nodes collude; by
    default it is ``epsilon``.
    """

    epsilon: float
    delta: float = 0.0
    plan: str | None = None
    steps: int = 1
    weight: int = 1
    alone: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.epsilon < math.inf and 0 <= self.delta < 1):
            raise ValueError(f"Expected a finite privacy cost, got {self}.")

    @property
    def epsilon_alone(self) -> float:
        """Epsilon of a user if all other nodes, which share their noise with it, collude."""
        return self.epsilon if self.alone is None else self.alone

    @property
    def numbers(self) -> tuple[float, float, float]:
        """The three numbers that limits are for: epsilon, delta and :attr:`epsilon_alone`."""
        return self.epsilon, self.delta, self.epsilon_alone

    @classmethod
    def of(cls, randomizer: Randomizer, salt: int = 0) -> Self:
        """Return the cost of one report, as the mechanism states it.

        If one payment covers several reports, it covers those of one run, which has the number
        ``salt``.
        """
        if not isinstance(randomizer, RecordMechanism | NodeSum):
            return cls(randomizer.epsilon, randomizer.delta)
        plan = f"{salt} {randomizer.plan}"
        if isinstance(randomizer, NodeSum):
            alone = randomizer.alone if randomizer.shared else None
            return cls(randomizer.epsilon, randomizer.delta, plan, PARTS, randomizer.parts, alone)
        return cls(randomizer.epsilon, randomizer.delta, plan, randomizer.steps)


def place_of(randomizer: Randomizer) -> str:
    """Return the place at which a mechanism adds its noise, one of :data:`NOISE`.

    Policies and studies allow mechanisms by this place.
    """
    if isinstance(randomizer, NodeSum):
        return "shared" if randomizer.shared else "node"
    return "user"


def seconds_in(period: str) -> int:
    """Return the length in seconds of a period such as ``"30d"`` or ``"12h"``.

    Raise ValueError if the text is not a period.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,5})([hd])", period)
    if found is None:
        raise ValueError(
            f"Expected a period of days or hours, such as '30d' or '12h', got {period!r}."
        )
    return int(found[1]) * _SECONDS[found[2]]


@dataclass(frozen=True)
class PrivacyPolicy(PlainFields):
    """The operator's limits for all queries that a client answers.

    Parameters
    ----------
    max_epsilon : float
        Largest sum of the epsilons of all reports about one user, for life. With a ``period``,
        largest sum in each period.
    max_delta : float (default: 0.0)
        Largest sum of the deltas.
    allow_inexact : bool (default: False)
        True to accept mechanisms with real-valued outputs, whose guarantee holds in real arithmetic
        only.
    max_rows : int, optional
        Largest number of rows used per user (the first ones); by default all.
    unit : {"user", "record"} (default: "user")
        Privacy unit of the limits: all data of a user, or each record of a silo (hospital) if the
        node's users are silos. With ``"user"``, mechanisms that protect single records are refused.
    noise : {"user", "node", "shared"} (default: "user")
        Where noise may be added: to each user's value alone, or also once to the exact sum over all
        users of the node. ``"node"`` suits users who trust the node that holds their rows. The
        number of the node's users is public, and ``max_delta`` has to be above 0. With ``"shared"``
        the node may also rely on the noise of other nodes, of whose sums only the total is visible.
        This needs ``max_dishonest``, and in a deployment the keys of the nodes.
    max_dishonest : int, optional
        Largest number of other nodes that may collude with the server. Required with ``noise``
        ``"shared"``, and only with it. An operator with three nodes counts three.
    max_epsilon_alone : float, optional
        Largest sum of the epsilons that a user loses if all other nodes collude; by default four
        times ``max_epsilon``. Reports without shared noise count, too.
    num_records : int, optional
        Public number of records of a silo; only the first ``num_records`` are used. The guarantee
        does not depend on it. A deployment that protects records needs this number. In simulation
        the default is the true number.
    min_epsilon : float (default: 0.001)
        Smallest epsilon of a report, or of each report of a plan. Reports of almost no cost would
        let a server ask without end, and fill the ledger.
    max_width : int (default: 1,048,576)
        Largest number of coordinates of the value that a query may ask of a user. Time and memory
        grow with it. Mechanisms that need more time per coordinate have additional limits.
    reply_after : float (default: 0.0)
        Earliest time at which a reply leaves, in seconds, so that neither its arrival nor its date
        shows how long the computation took. This hides computations that take less time.
    features_public : bool (default: False)
        True if everything but the targets is public, including the number of a user's rows.
        Protocols that protect only the targets may then send the public data unchanged.
    allow_public_changes : bool (default: False)
        True if a server may learn when a user's answer changes. A series of collections may then
        ask for permanent answers, which hide everything else about the user's whole history.
    period : str, optional
        Length of a period, in days or hours (``"30d"``, ``"12h"``), after which ``max_epsilon``
        may be spent again. The node's clock counts. Deltas have no period, so ``max_delta`` has to
        be 0. A simulation is in one period.
    lifetime_epsilon : float, optional
        Largest sum of epsilons over all periods. Required with ``period``, and only with it.
    studies : str or Path, optional
        File of the approved studies (docs/approved-studies.md). With a file, every query that no
        study approves is refused.

    Raises
    ------
    ValueError
        If a limit is negative or not a number, or a unit is not known.
    """

    max_epsilon: float
    max_delta: float = 0.0
    allow_inexact: bool = False
    max_rows: Count | None = None
    unit: str = "user"
    noise: str = "user"
    max_dishonest: int | None = None
    max_epsilon_alone: float | None = None
    num_records: Count | None = None
    features_public: bool = False
    allow_public_changes: bool = False
    min_epsilon: float = 0.001
    max_width: Count = 1 << 20
    reply_after: float = 0.0
    period: str | None = None
    lifetime_epsilon: float | None = None
    studies: str | Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.max_epsilon > 0:
            raise ValueError(f"Expected max_epsilon > 0, got {self.max_epsilon}.")
        if not 0 <= self.max_delta < 1:
            raise ValueError(f"Expected 0 <= max_delta < 1, got {self.max_delta}.")
        for name in ("min_epsilon", "reply_after"):
            if not 0 <= (value := getattr(self, name)) < math.inf:
                raise ValueError(f"Expected {name} >= 0 and finite, got {value}.")
        for name in ("allow_inexact", "features_public", "allow_public_changes"):
            check_truth(name, getattr(self, name))
        check_choice("unit", self.unit, UNITS)
        check_choice("noise", self.noise, NOISE)
        self._check_shared()
        self._check_period()
        if self.studies is not None and not (isinstance(self.studies, str | Path) and self.studies):
            raise ValueError(f"Expected studies to be the path of a file, got {self.studies!r}.")

    def _check_shared(self) -> None:
        if (self.noise == "shared") != (self.max_dishonest is not None):
            raise ValueError('Expected max_dishonest with noise="shared", and only with it.')
        if self.max_dishonest is not None:
            check_integer("max_dishonest", self.max_dishonest, 0)
        if self.max_epsilon_alone is None:
            return
        if self.noise != "shared":
            raise ValueError('Expected max_epsilon_alone with noise="shared" only.')
        if not self.max_epsilon <= self.max_epsilon_alone:
            raise ValueError(
                "Expected max_epsilon_alone (the largest epsilon if all other nodes collude) to be "
                f"at least max_epsilon = {self.max_epsilon}, got {self.max_epsilon_alone}."
            )

    @property
    def epsilon_alone(self) -> float:
        """Limit on the sum of a user's epsilons if all other nodes collude."""
        if self.noise != "shared":
            return self.max_epsilon
        return self.max_epsilon_alone or _ALONE * self.max_epsilon

    def _check_period(self) -> None:
        if (self.period is None) != (self.lifetime_epsilon is None):
            raise ValueError("Expected period and lifetime_epsilon together, or neither.")
        if self.period is None or self.lifetime_epsilon is None:
            return
        if not isinstance(self.period, str):
            raise ValueError(f"Expected period to be a text such as '30d', got {self.period!r}.")
        seconds_in(self.period)
        if not self.max_epsilon <= self.lifetime_epsilon < math.inf:
            raise ValueError(
                f"Expected max_epsilon <= lifetime_epsilon < inf, got {self.lifetime_epsilon}."
            )
        if self.max_delta:
            raise ValueError(f"Expected max_delta 0 with a period, got {self.max_delta}.")

    @classmethod
    def from_node_config(cls, node_config: Mapping[str, object]) -> Self | None:
        """Return the policy that a node's operator has set; None if ``max-epsilon`` is not set.

        The keys are the parameters' names with hyphens (``max-epsilon``, ``allow-inexact``).

        Raises
        ------
        ValueError
            If a value is not allowed, or if a key differs from a setting only by capitals and
            underscores (``max_rows``). Such a key would otherwise count as a setting of the app.
        """
        settings = cls._settings()
        for key in node_config.keys() - settings:
            if (meant := key.lower().replace("_", "-")) in settings:
                raise ValueError(f"Expected the key {meant!r}, got {key!r}.")
        keys = {field.name: field.name.replace("_", "-") for field in fields(cls)}
        given = {name: node_config[key] for name, key in keys.items() if key in node_config}
        if "max_epsilon" not in given:
            return None
        if given["max_epsilon"] == math.inf:
            raise ValueError("Expected max-epsilon finite, got inf.")
        if given.get("unit") == "record" and "num_records" not in given:
            raise ValueError("Expected num-records, the public number of a silo's records.")
        if given.get("unit") == "record" and given.get("noise") in NOISE[1:]:
            raise ValueError(
                f'Expected unit="record" or noise="{given["noise"]}", not both: a silo\'s records '
                "and the users of a node have different accounts, each with a separate limit."
            )
        if given.get("noise") in NOISE[1:] and not given.get("max_delta"):
            raise ValueError(
                f'Expected max-delta > 0 with noise="{given["noise"]}", whose noise has a delta.'
            )
        try:
            return cls(**given)  # type: ignore[arg-type]
        except ValueError as error:  # its text names parameters, but the operator knows the keys
            text = str(error)
            for name, key in keys.items():
                text = text.replace(name, key)
            raise ValueError(text) from None

    @classmethod
    def _settings(cls) -> set[str]:
        """Return all keys that an operator may set."""
        return {field.name.replace("_", "-") for field in fields(cls)} | _OTHER_SETTINGS

    @classmethod
    def unknown_settings(cls, keys: Iterable[str]) -> set[str]:
        """Return the keys that are not settings of the policy, and so belong to an app."""
        return set(keys) - cls._settings()

    @classmethod
    def nearly_settings(cls, keys: Iterable[str]) -> dict[str, str]:
        """Return the keys that may be misspelt settings, each with the setting that it resembles.

        Such a key would have no effect, and a limit that the operator wanted would not hold. So
        nodes warn of it.
        """
        settings = cls._settings()
        matches = {
            key: get_close_matches(key, settings, n=1, cutoff=_NEARLY)
            for key in cls.unknown_settings(keys)
        }
        return {key: match[0] for key, match in matches.items() if match}

    def tightened_by(self, other: "PrivacyPolicy | None") -> "PrivacyPolicy":
        """Return a policy that has, for each limit, the stricter value of two policies.

        In a deployment, a client answers under the operator's policy, tightened by the app's own.
        """
        if other is None:
            return self
        files = {file for file in (self.studies, other.studies) if file is not None}
        if len(files) > 1:
            raise ValueError("Expected one file as studies, got two: the app's and the operator's.")
        rows = [rows for rows in (self.max_rows, other.max_rows) if rows is not None]
        noise = min(self.noise, other.noise, key=NOISE.index)
        shared = noise == "shared"
        dishonest = max(self.max_dishonest or 0, other.max_dishonest or 0)
        return PrivacyPolicy(
            max_epsilon=min(self.max_epsilon, other.max_epsilon),
            max_delta=min(self.max_delta, other.max_delta),
            allow_inexact=self.allow_inexact and other.allow_inexact,
            max_rows=min(rows, default=None),
            unit="record" if self.unit == other.unit == "record" else "user",
            noise=noise,
            max_dishonest=dishonest if shared else None,
            max_epsilon_alone=min(self.epsilon_alone, other.epsilon_alone) if shared else None,
            num_records=self.num_records,
            features_public=self.features_public and other.features_public,
            allow_public_changes=self.allow_public_changes and other.allow_public_changes,
            min_epsilon=max(self.min_epsilon, other.min_epsilon),
            max_width=min(self.max_width, other.max_width),
            reply_after=max(self.reply_after, other.reply_after),
            period=self.period,
            lifetime_epsilon=None if self.period is None else min(self._for_life, other._for_life),
            studies=next(iter(files), None),
        )

    @property
    def _for_life(self) -> float:
        """Limit on the sum of a user's epsilons over its whole life, also across renewals."""
        return self.max_epsilon if self.lifetime_epsilon is None else self.lifetime_epsilon

    def allows(self, randomizer: Randomizer) -> bool:
        """Return True if a user who has spent nothing may send one report of this mechanism."""
        return self.objection(randomizer) is None

    def objection(self, randomizer: Randomizer) -> str | None:
        """Return the reason why the policy forbids one report of this mechanism.

        Return None if the policy allows it.
        """
        by_record, noise = isinstance(randomizer, RecordMechanism), place_of(randomizer)
        cost = Cost.of(randomizer)
        return self.objection_to(
            cost, randomizer.width, by_record=by_record, noise=noise, exact=randomizer.exact
        )

    def objection_to(
        self, cost: Cost, width: int, *, by_record: bool, noise: str, exact: bool
    ) -> str | None:
        """Return the reason why the policy forbids an answer or a plan; None if it is allowed.

        ``width`` is the number of coordinates of a value. ``by_record`` is True if the mechanism
        protects single records only. ``noise`` is the place where it adds noise.
        ``exact`` is True if the guarantee also holds in floating-point arithmetic.
        """
        each = cost.epsilon * cost.weight / cost.steps
        rules = (
            (
                NOISE.index(noise) <= NOISE.index(self.noise),
                f"it adds noise to sums ({noise}), and noise is {self.noise}",
            ),
            (exact or self.allow_inexact, "it is inexact, and allow-inexact is false"),
            (self.unit == "record" or not by_record, "it protects records, and unit is user"),
            (self.min_epsilon <= each, f"epsilon {each} is below min-epsilon {self.min_epsilon}"),
            (
                cost.epsilon <= self.max_epsilon,
                f"epsilon {cost.epsilon} is above max-epsilon {self.max_epsilon}",
            ),
            (
                cost.epsilon_alone <= self.epsilon_alone,
                f"epsilon {cost.epsilon_alone} if all other nodes collude is above "
                f"max-epsilon-alone {self.epsilon_alone}",
            ),
            (
                width <= self.max_width,
                f"its {width} coordinates are more than max-width {self.max_width}",
            ),
            (
                cost.delta <= self.max_delta,
                f"delta {cost.delta} is above max-delta {self.max_delta}",
            ),
        )
        return next((text for allowed, text in rules if not allowed), None)
