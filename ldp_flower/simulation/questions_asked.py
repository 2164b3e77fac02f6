"""The questions that a strategy asks, collected in a simulation on synthetic users of a schema."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from ..clients import LdpClientApp
from ..data.schema import Numeric, Schema
from ..data.users import Users
from ..guarantee.budget import place_of
from ..guarantee.messages import QUERY, Query
from ..guarantee.shared_sums import SET
from ..questions import WIRE_TYPES, WireType
from ..randomness import KeyedRandom, derive
from .grid import InProcessGrid, row_messages_merged, silenced

if TYPE_CHECKING:
    from ..strategies import LdpStrategy

_SEEDS = range(3)  # a question may depend on the answers before it
_SPREAD = 1 / 8  # standard deviation of a number, relative to its range


@dataclass
class QuestionsAsked:
    """Questions, columns and places of noise, in the order in which they were first asked.

    ``steps`` is the largest number of questions of a run. It includes questions that may have to be
    asked again if nodes share their noise. ``epsilon`` and ``delta`` are the largest sums of a
    user. ``alone`` is the largest sum of epsilons if all other nodes collude, or None without
    shared noise.
    """

    questions: dict[str, None] = field(default_factory=dict)
    columns: dict[str, None] = field(default_factory=dict)
    noise: dict[str, None] = field(default_factory=dict)
    steps: int = 0
    epsilon: float = 0.0
    delta: float = 0.0
    alone: float | None = None


class RecordingGrid(InProcessGrid):
    """In-process grid that keeps the queries that are sent, by their digests.

    ``forms`` are the known questions. A query that is sent to several nodes is kept once.
    """

    def __init__(
        self, client_app: ClientApp, num_nodes: int = 1, forms: Mapping[str, WireType] = WIRE_TYPES
    ) -> None:
        super().__init__(client_app, num_nodes)
        self._forms = forms
        self.sent: dict[str, Query] = {}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let every addressed node handle its message, and keep the queries."""
        pushed = list(messages)
        for message in pushed:
            if message.metadata.message_type == f"query.{QUERY}":
                content = message.content.copy()
                content.pop(SET, None)
                query = Query.from_record_dict(content, self._forms)
                self.sent[query.digest()] = query
        return super().push_messages(pushed)


def questions_asked(
    strategy: "LdpStrategy[Any]", schema: Schema, num_users: int, num_nodes: int = 1
) -> QuestionsAsked:
    """Run a strategy on synthetic users of a schema, a few times, and return what it asks.

    Raise TooFewReports if there are too few users for the strategy.
    """
    from ..strategies.runtime.at_node import SPARE

    found = QuestionsAsked()
    for seed in _SEEDS:
        users = _synthetic(schema, num_users, seed)

        def load_users(context: Context, users: Users = users) -> Users:
            return users.partition(int(context.node_config["partition-id"]), num_nodes)

        grid = RecordingGrid(LdpClientApp(load_users, seed=seed), num_nodes)
        with silenced("flwr"), row_messages_merged():
            result = strategy.start(grid, timeout=60.0, num_nodes=num_nodes, seed=seed)
        names = users.columns or ()
        for query in grid.sent.values():
            found.questions[query.statistic] = None
            found.noise[place_of(query.randomizer)] = None
            read = query.question.reads(users.num_features) or ()
            found.columns |= dict.fromkeys(names[i] for i in read if i < len(names))
        spent = result.privacy
        assert spent is not None
        # The spare part of a plan pays for asking lost shared sums again; each such sum is a step.
        again = math.ceil(len(grid.sent) * SPARE / (1 - SPARE)) if spent.alone is not None else 0
        found.steps = max(found.steps, len(grid.sent) + again)
        found.epsilon = max(found.epsilon, spent.epsilon)
        found.delta = max(found.delta, spent.delta)
        if spent.alone is not None:
            found.alone = max(found.alone or 0.0, spent.alone)
    return found


def _synthetic(schema: Schema, num_users: int, seed: int) -> Users:
    """Return users with one random row each, whose columns are independent of each other."""
    names = schema.columns_read
    draws = KeyedRandom(derive(seed, np.arange(num_users)))
    normals, uniforms = (draw((num_users, len(names))) for draw in (draws.normals, draws.uniforms))
    table: dict[str, Any] = {}
    for place, name in enumerate(names):
        kind = schema.kind(name)
        if isinstance(kind, Numeric):
            within = np.clip(0.5 + _SPREAD * normals[:, place], 0.0, 1.0)
            table[name] = kind.low + (kind.high - kind.low) * within
        else:
            declared = np.array(kind.declared, dtype=object)
            table[name] = declared[(len(declared) * uniforms[:, place]).astype(np.int64)]
    return schema.users(table)
