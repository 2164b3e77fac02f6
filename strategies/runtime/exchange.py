"""Exchange of a run's questions and answers: messages, collection and checking of replies."""

import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from ldp_flower.guarantee.messages import CENSUS, QUERY, ErrorCode, MessageError
from ldp_flower.guarantee.shared_sums import COMMIT, Committed
from ldp_flower.guarantee.training import PUBLIC, census

from .ask import Ask
from .asked import Asked
from .census import Facts, census_content, census_facts, schema_mismatch
from .delivery import Delivery, Replied
from .facts import Step
from .plain import made
from .population import Population
from .run_store import OTHER_SCHEMA, Failure, Reply, RunStore
from .shared_sums import Chosen, choose

logger = logging.getLogger("flwr")

_MAX_REASON_CHARS = 200  # largest number of characters of an error that are kept
#: Errors with which a node refuses before any user pays. After any other error users may have paid.
_UNPAID = {
    *(ErrorCode.MALFORMED, ErrorCode.FORBIDDEN, ErrorCode.EXHAUSTED, ErrorCode.MISCONFIGURED),
    *(code for code in ErrorCode if ErrorCode.PEERS_FILE <= code != ErrorCode.ANOTHER_SET),
}
# While replies arrive, the server pauses at most this many times as long as a request for replies
# took.
_PAUSES = 5


def means_of(metrics: Iterable[MetricRecord]) -> MetricRecord:
    """Return the mean over nodes of each metric, from those nodes that sent a finite number."""
    sent: dict[str, list[float]] = {}
    for record in metrics:
        for name, value in record.items():
            if isinstance(value, int | float) and math.isfinite(value):
                sent.setdefault(name, []).append(float(value))
    return MetricRecord({name: sum(values) / len(values) for name, values in sent.items()})


def _failure(reply: Message) -> Failure:
    reason = f"{reply.error.reason}"
    if len(reason) > _MAX_REASON_CHARS:  # a traceback, whose end names the error
        reason = f"{reason[:60]} ... {reason[65 - _MAX_REASON_CHARS :]}"
    return Failure(reply.error.code, reason)


def _delivered(
    grid: Grid, messages: list[Message], timeout: float, awaited: set[int] | None = None
) -> Iterator[list[Replied]]:
    """Send messages, and yield replies as they arrive until ``timeout`` seconds are over.

    The iterator ends early if all nodes, or those that are ``awaited``, have replied. At the end it
    yields the last error of each node whose answer was lost.
    """
    if not messages:
        return
    delivery = Delivery(grid, messages)
    end, pause, logged = time.monotonic() + timeout, 0.05, time.monotonic()
    while True:
        asked, before = time.monotonic(), len(delivery.open_nodes)
        replies = delivery.replies()
        # Requests for thousands of messages keep Flower's engine from other work.
        took = time.monotonic() - asked
        yield replies
        remaining, waiting = end - time.monotonic(), delivery.open_nodes
        if remaining <= 0 or not (waiting if awaited is None else waiting & awaited):
            break
        if time.monotonic() - logged > 10:
            logged = time.monotonic()
            logger.info("\t     waiting for %d of %d nodes", len(waiting), len(messages))
        time.sleep(min(pause, remaining))
        pause = min(1.5 * pause, 0.5)
        if len(waiting) < before:
            pause = min(pause, max(_PAUSES * took, 0.05))
    yield delivery.given_up()


class Exchange:
    """Exchange of a run's messages with its nodes. The replies go to the run's store.

    Step 0 is the census, which asks nodes how many users they hold. Each later step asks a
    question. With a ``carrier``, such as ``"train"``, questions are sent with an app's own messages
    of this type, and otherwise as queries. ``schema`` has the digests of the schema that nodes need
    to have, if there is one.
    """

    def __init__(
        self, store: RunStore, carrier: str | None = None, schema: Mapping[str, int] | None = None
    ) -> None:
        self._store = store
        self._carrier = carrier
        self._schema = schema
        self._public: dict[int, dict[int, MetricRecord]] = {}
        self._read_from: set[tuple[int, int]] = set()  # steps and nodes

    def collect(
        self,
        grid: Grid,
        step: int,
        messages: list[Message],
        timeout: float,
        ask: Asked | None = None,
    ) -> list[Message]:
        """Send messages and store every reply as it arrives; return all replies.

        Replies that the transport loses are requested again, until ``timeout`` seconds are over.
        """
        came: list[Message] = []
        for replies in _delivered(grid, messages, timeout):
            self.receive(step, replies, ask)
            came += [reply for _, reply in replies]
        return came

    def agree(
        self, grid: Grid, step: int, ask: Ask, population: Population, timeout: float
    ) -> Chosen:
        """Ask nodes to commit to a shared sum; store and return the nodes that are its members.

        All nodes are asked. The server does not wait for nodes that were not members of the step
        before.
        """
        before = self.chosen(step - 1)
        awaited = None if before is None else set(before.commits)
        query = ask.query(population.salt, self._store.first + step)
        messages = [
            Message(query.to_record_dict(), node, f"query.{COMMIT}", group_id=str(step))
            for node in population.addressed(ask.cohort)
        ]
        committed: dict[int, Committed] = {}
        for replies in _delivered(grid, messages, timeout, awaited):
            for node, reply in replies:
                if reply.has_error():
                    self._store.add_replies(step, [(node, None, _failure(reply))])
                    continue
                with suppress(MessageError, KeyError, TypeError, ValueError):
                    record = reply.content.config_records[COMMIT]
                    committed[node] = Committed.from_record(record)
        chosen = choose(committed, bytes.fromhex(query.digest("shared sum")))
        self._store.put(f"step {step} set", chosen.to_plain())  # before a member is asked
        return chosen

    def chosen(self, step: int) -> Chosen | None:
        """Return the members of a step's shared sum, if the store has them, or None."""
        plain = self._store.get(f"step {step} set")
        return None if plain is None else Chosen.from_plain(plain)

    def receive(
        self, step: int, replies: Iterable[tuple[int, Message]], ask: Asked | None = None
    ) -> None:
        """Store the replies of nodes to a question or to the census.

        Only the first reply of each node is read.
        """
        new = [(node, reply) for node, reply in replies if (step, node) not in self._read_from]
        self._read_from.update((step, node) for node, _ in new)
        self._store.add_replies(step, [self._read(step, node, reply, ask) for node, reply in new])

    def _read(self, step: int, node: int, reply: Message, ask: Asked | None) -> Reply:
        """Return the node, the bytes of its reply, and a failure.

        A node's error and another schema give None as bytes, and a failure. A reply that cannot be
        decoded gives empty bytes and no failure, and is rejected later.
        """
        if reply.has_error():
            return node, None, _failure(reply)
        try:
            if ask is None:
                if (other := schema_mismatch(reply.content, self._schema)) is not None:
                    # The node is asked again when the run is restarted.
                    return node, None, Failure(OTHER_SCHEMA, other)
                content = census_content(reply.content)
            else:
                records = dict(reply.content.items())
                public = records.pop(PUBLIC, None)
                content = ask.read(RecordDict(records))
                if isinstance(public, MetricRecord):
                    self._public.setdefault(step, {})[node] = public
        except (MessageError, KeyError, TypeError, ValueError, OverflowError):
            content = b""
        return node, content, None

    def public_metrics(self, step: int) -> list[MetricRecord]:
        """Return the metrics that nodes have sent without noise in this step, a record for each."""
        return list(self._public.get(step, {}).values())

    def census_messages(self, roster: list[int], own: RecordDict) -> list[Message]:
        """Return census messages for the nodes that have not answered the census yet.

        Each message also carries the records ``own``, which a strategy adds, such as an app's
        records.
        """
        content = own if self._carrier is None else census(own)
        kind = self._carrier or f"query.{CENSUS}"
        return [Message(content, node, kind) for node in self._waiting(0, roster)]

    def census(self, roster: list[int], max_users: int) -> tuple[dict[int, Facts], Step]:
        """Return the nodes' valid answers to the census, and its counts, which are of nodes.

        Answers that claim more than ``max_users`` users are rejected.
        """
        replies = self._store.replies(0)
        contents = {node: replies.get(node, (None, None))[0] for node in roster}
        answered = {node: content for node, content in contents.items() if content is not None}
        found = {node: census_facts(each, node, max_users) for node, each in answered.items()}
        nodes = {node: facts for node, facts in found.items() if facts is not None}
        reasons = Counter(str(failure) for _, failure in replies.values() if failure is not None)
        errors, silent = sum(reasons.values()), len(roster) - len(replies)
        asked = len(roster), len(nodes), errors, len(answered) - len(nodes), silent
        spent = sum(facts.exhausted for facts in nodes.values())
        return nodes, Step(0, "census", "", 0, *asked, reasons, spent)

    def other_schemas(self) -> dict[int, str]:
        """Return, for each node with another schema, a text on how it differs, by node."""
        failures = self.census_failures().items()
        return {node: each.text for node, each in failures if each.code == OTHER_SCHEMA}

    def census_failures(self) -> dict[int, Failure]:
        """Return the failures of nodes in the census, by node."""
        replies = self._store.replies(0).items()
        return {node: failure for node, (_, failure) in replies if failure is not None}

    def _waiting(self, step: int, nodes: Iterable[int]) -> list[int]:
        replies = self._store.replies(step)
        return [node for node in nodes if replies.get(node, (None, None))[0] is None]

    def messages(self, step: int, ask: Asked, population: Population) -> list[Message]:
        """Return messages that ask a question, for the nodes without an answer in this step yet."""
        kind = self._carrier or f"query.{QUERY}"
        waiting = self._waiting(step, ask.addressed(population))
        numbered = [population.nodes[node].numbers is not None for node in waiting]
        number = self._store.first + step
        contents = {each: ask.sent(population.salt, number, each) for each in set(numbered)}
        return [
            Message(contents[each], node, kind, group_id=str(step))
            for node, each in zip(waiting, numbered, strict=True)
        ]

    def answer(self, number: int, ask: Asked, population: Population) -> tuple[Any, Step]:
        """Return the answer to a question and the step's counts, from the checked replies.

        If the store has condensed the step, return the stored answer and counts.
        """
        if (kept := self._store.condensed(number)) is not None:
            with self._store.reading(f"the answer of step {number}"):
                return ask.from_bytes(kept[0]), made(Step, kept[1])
        parts: dict[int, Any] = {}
        errors = rejected = silent = no_budget = lost = 0
        reasons = Counter[str]()
        replies = self._store.replies(number)
        for node, slots in ask.addressed(population).items():
            content, failure = replies.get(node, (None, None))
            part = None
            if failure is not None:
                errors += 1
                reasons[str(failure)] += 1
                no_budget += len(slots) if failure.code == ErrorCode.EXHAUSTED else 0
            elif content is None:
                silent += 1
            else:
                keys, asked_as = population.nodes[node], self._store.first + number
                part = ask.part(content, keys, population.salt, asked_as, slots)
                rejected += part is None
            if part is not None:
                parts[node] = part
                no_budget += len(slots) - part.count
            elif failure is None or failure.code not in _UNPAID:
                lost += len(slots)
        answer = ask.together(parts)
        return answer, Step(
            number,
            ask.name,
            ask.mechanism,
            ask.report_bytes,
            ask.cohort.size,
            answer.count,
            errors,
            rejected,
            silent,
            reasons,
            no_budget,
            lost,
        )
