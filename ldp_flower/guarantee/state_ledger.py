"""The ledger of a simulated node, which ends with the run and needs no file."""

import time
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from hashlib import sha256

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from .budget import Cost, PrivacyPolicy
from .ledger import (
    Accounts,
    Claim,
    Entry,
    EpsilonAfter,
    PermanentSeries,
    SqliteLedger,
    can_pay,
    is_open,
    refunds,
)
from .limits import Allowed, Limit, limits_of
from .one_time_keys import OneTimeKey
from .peers import Peers, encode
from .shared_sums import Commit
from .studies import Study

#: Name of the ledger of a simulated node that is one user.
NODE = "ldp-node"


class StateLedger:
    """A ledger in a Flower ``Context.state``, for simulation; it ends with the run.

    Each of the node's users has one account, by the user's index on the node. The names of the
    ledger's records in the state begin with ``name``. It is ``"ldp"``, or :data:`NODE` if the whole
    node is one user. :attr:`RECORDS` lists all names of records.
    """

    RECORDS = frozenset(
        f"{name}-{kind}"
        for name in ("ldp", NODE)
        for kind in ("spent", "replies", "plans", "studies")
    )

    def __init__(self, state: RecordDict, num_users: int, name: str = "ldp") -> None:
        self._state = state
        self._num_users = num_users
        self._spent_name, self._replies_name = f"{name}-spent", f"{name}-replies"
        self._plans_name, self._studies_name = f"{name}-plans", f"{name}-studies"

    @cached_property
    def _spent(self) -> NDArray[np.float64]:
        """Epsilon, delta and epsilon alone that each user has spent, shape (3, users).

        Epsilon alone is the epsilon that a user loses if all other nodes collude. The numbers are
        read once, since the object lives only while one message is answered.
        """
        if self._spent_name not in self._state:
            return np.zeros((3, self._num_users))
        (spent,) = self._state.array_records[self._spent_name].to_numpy_ndarrays()
        return spent

    def _config(self, name: str) -> ConfigRecord:
        """Return a record of the state, or an empty one in the first message."""
        return self._state.config_records.get(name, ConfigRecord())

    def _used(self, cost: Cost) -> NDArray[np.int64]:
        """Return how many reports of the cost's plan each of the node's users has sent."""
        if cost.plan is None or cost.plan not in (plans := self._config(self._plans_name)):
            return np.zeros(self._num_users, np.int64)
        return np.array(plans[cost.plan], np.int64)

    def _keep_used(self, plan: str, used: NDArray[np.int64]) -> None:
        plans = self._config(self._plans_name)
        plans[plan] = used.tolist()
        self._state[self._plans_name] = plans

    def claim(self, digest: str, count: int) -> Claim | None:
        """Return the stored claim of the query with this digest; None if the query is new."""
        stored = self._config(self._replies_name).get(digest)
        return Claim.of(stored, count) if isinstance(stored, bytes) else None

    def _in_study(self, study: Study) -> NDArray[np.float64]:
        """Return what users have spent in a study, and the number of its steps.

        The rows, shape (4, users), are epsilon, delta, epsilon alone and the number of steps.
        """
        studies = self._studies()
        if study.id not in studies:
            return np.zeros((4, self._num_users))
        return np.array(studies[study.id].numpy())

    def _studies(self) -> ArrayRecord:
        """Return the record of what users have spent, by study; empty in the first message."""
        return self._state.array_records.get(self._studies_name, ArrayRecord())

    def now(self) -> float:
        """Return the time of the system's clock, in seconds."""
        return time.time()

    def is_over(self, study: Study) -> bool:
        """Return True if a study has ended or its steps are used."""
        return self.now() >= study.ends or self._in_study(study)[3].max(initial=0) >= study.steps

    def affordable(
        self, accounts: Accounts, cost: Cost, policy: PrivacyPolicy, study: Study | None = None
    ) -> Allowed:
        """Return a mask of the ``accounts`` that can still pay ``cost`` under policy and study."""
        if study is not None and self.is_over(study):
            return np.zeros(len(accounts), bool)
        return can_pay(self.limits(accounts, policy, study), self._used(cost)[accounts], cost)

    def limits(
        self, accounts: Accounts, policy: PrivacyPolicy, study: Study | None = None
    ) -> list[Limit]:
        """Return the limits of a policy and a study, each with what every account has spent."""
        in_study = None if study is None else self._in_study(study)[:3, accounts]
        return limits_of(policy, self._spent[:, accounts], study=study, in_study=in_study)

    def reserve(
        self,
        entry: Entry,
        accounts: Accounts,
        cost: Cost,
        policy: PrivacyPolicy,
        series: PermanentSeries | None = None,
        study: Study | None = None,
    ) -> Claim:
        """Debit the users who can pay, like :meth:`SqliteLedger.reserve`."""
        assert series is None  # a simulated node keeps no secrets
        claim = self.claim(entry.digest, len(accounts))
        if claim is None:
            claim = Claim(self.affordable(accounts, cost, policy, study))
            accounts, used = accounts[claim.users], self._used(cost)
            paying = accounts[used[accounts] == 0]
            costs = np.array(cost.numbers)[:, None]
            self._spent[:, paying] += costs
            self._state[self._spent_name] = ArrayRecord([self._spent])
            if study is not None and len(accounts):
                in_study = self._in_study(study)
                in_study[:3, paying] += costs
                in_study[3] += 1
                arrays = {**self._studies(), study.id: Array(in_study)}
                self._state[self._studies_name] = ArrayRecord(arrays)
            if cost.plan is not None:
                used[accounts] += cost.weight
                self._keep_used(cost.plan, used)
        if claim.reply is None and claim.users.any():
            claim = claim.with_attempt()
            self.fulfil(entry.digest, claim.to_bytes())
        return claim

    def end_plan(self, accounts: Accounts, cost: Cost, epsilon_after: EpsilonAfter) -> None:
        """Give back the epsilon of a plan's unsent reports, like :meth:`SqliteLedger.end_plan`."""
        every = self._used(cost)
        used = every[accounts]
        if cost.plan is None or not (begun := is_open(used, cost)).any():
            return
        back = refunds(used, cost, epsilon_after)
        self._spent[:, accounts] -= back * np.array([[1.0], [0.0], [1.0]])
        self._state[self._spent_name] = ArrayRecord([self._spent])
        every[accounts[begun]] = cost.steps
        self._keep_used(cost.plan, every)

    def answering(self, digest: str) -> AbstractContextManager[None]:
        """Return a context that locks nothing, since a simulated node is a single process."""
        return nullcontext()

    def commit(self, digest: bytes, plan: str, peers: Peers) -> Commit:
        """Return a simulated node's commit to a query, like :meth:`SqliteLedger.commit`."""
        return self.one_time_key(digest, peers).commit

    def one_time_key(self, digest: bytes, peers: Peers) -> OneTimeKey:
        """Return a simulated node's commit to a query, with its secret key.

        The secret key follows from the query and the node's name.
        """
        encoded = encode("simulated one-time", peers.name, digest)
        secret = X25519PrivateKey.from_private_bytes(sha256(encoded).digest())
        return OneTimeKey(Commit.made(peers, digest, secret), secret)

    def fulfil(self, digest: str, reply: bytes, closes: bytes | None = None) -> bytes:
        """Store the reply to a query whose cost is paid, and return the reply."""
        replies = self._config(self._replies_name)
        replies[digest] = reply
        self._state[self._replies_name] = replies
        return reply


#: A ledger of either kind: spent budgets and stored replies of one operator's users.
Ledger = StateLedger | SqliteLedger
