"""Makes vectors.json: messages as plain numbers, and what this library's client replies to them.

``python -m simulations.wire_client.vectors`` writes it. A client of another language is right if
it replies the same, given the words that are drawn. JSON's numbers are doubles, so integers of
more than 53 bits are texts.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict

from ldp_flower import Categories, InProcessGrid, Numeric, Schema, Users
from ldp_flower.audit.probe import replaced
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, Query, Report
from ldp_flower.guarantee.packing import pack
from ldp_flower.questions import LevelRounding, TableCell
from ldp_flower.randomizers import KRandomizedResponse, RandomizedResponse
from ldp_flower.randomness import KeyedRandom, SystemRandom, derive

VECTORS = Path(__file__).with_name("vectors.json")
SCHEMA = Schema({"age": Numeric(18, 80), "job": Categories(["a", "b", "c"])})
NODE = 1  # number of the one node of a grid, which is the group of its users' keys
EVERYBODY = {"salt": 12345678901234567, "low": 0, "high": HASH_END, "step": 1}
WIDE = ("salt", "low", "high")  # integers of more than 53 bits
POLICY = {"max-epsilon": 4.0}


def cases() -> Iterator[tuple[str, list[float], dict[str, Any], Query]]:
    """Yield names, a user's row, settings of its node, and queries."""
    job, age = SCHEMA.places("job"), SCHEMA.places("age")
    (number,) = (SCHEMA.kind("age"),)
    assert isinstance(number, Numeric)
    low, high = number.coded([18, 80]).tolist()
    sizes = np.array([3.0])
    row = [1.0, float(number.coded([41])[0]), 0.0, 1.0, 0.0]  # the intercept comes first
    missing = [1.0, *[float("nan")] * 4]
    instead = np.array([0.2, 0.5, 0.3])
    shares = TableCell(np.array(job), sizes)
    level = TableCell(np.array(age), np.empty(0), 3, low, high)
    both = TableCell(np.array([*job, *age]), sizes, 2, low, high)
    filled = TableCell(np.array(job), sizes, instead=instead)
    rounding = LevelRounding(np.array(age), np.empty(0), 3, low, high)
    for epsilon in (0.5, 1.0, 4.0):
        named = f"epsilon {epsilon:g}"
        yield f"category, {named}", row, POLICY, _query(shares, epsilon, 4)
        yield f"level of a number, {named}", row, POLICY, _query(level, epsilon, 4)
        yield f"category and level, {named}", row, POLICY, _query(both, epsilon, 7)
        yield f"nothing there, {named}", missing, POLICY, _query(shares, epsilon, 4)
        yield f"nothing there, drawn instead, {named}", missing, POLICY, _query(filled, epsilon, 3)
        asked = Query(rounding, RandomizedResponse(epsilon, 0.5), **EVERYBODY)
        yield f"rounding, {named}", row, POLICY, asked
        yield f"rounding of nothing, {named}", missing, POLICY, asked
    yield "more than the budget", row, {"max-epsilon": 0.5}, _query(shares, 1.0, 4)
    yield "less than the policy's least", row, POLICY, _query(shares, 1e-4, 4)
    yield "no policy", row, {}, _query(shares, 1.0, 4)
    nobody = Query(shares, KRandomizedResponse(1.0, 4), **EVERYBODY | {"high": 1})
    yield "nobody is addressed", row, POLICY, nobody


def _query(question: TableCell, epsilon: float, size: int) -> Query:
    return Query(question, KRandomizedResponse(epsilon, size), **EVERYBODY)


def vector(number: int, name: str, row: list[float], policy: dict[str, Any], query: Query) -> Any:
    """Return one vector: what is asked, of whom, with which words, and the reply."""
    drawn: list[int] = []

    def words(source: SystemRandom, shape: tuple[int, ...]) -> Any:
        count = int(np.prod(shape))
        found = KeyedRandom(derive(number, len(drawn), np.zeros(1, int))).words((1, count))[0]
        drawn.extend(found.tolist())
        return found.reshape(shape)

    features = np.array([row])
    users = Users(features, np.array([np.nan]), np.array([0, 1]), ids=np.array(["somebody"]))
    grid = InProcessGrid(LdpClientApp(lambda context: users), 1)
    content = query.to_record_dict()
    with tempfile.TemporaryDirectory() as folder, replaced(SystemRandom, words=words):
        ledger = Path(folder, "ledger.db")
        SqliteLedger.create(ledger)
        grid.contexts[NODE].node_config.update({**policy, "ledger-path": str(ledger)})
        (census,) = grid.send_and_receive([Message(RecordDict(), NODE, "query.census")])
        (reply,) = grid.send_and_receive([Message(content, NODE, "query.report")])
    layout, payload = pack(query.question.to_wire()[1])
    config = {"version": 1, "layout": layout, **query.to_config()}
    return {
        "name": name,
        "user": {"group": NODE, "features": [_plain(entry) for entry in row], **policy},
        "census": None if census.has_error() else dict(census.content["census"]),
        "query": {
            "type": "query.report",
            "config": {k: str(v) if k in WIDE else v for k, v in config.items()},
            "payload": payload.hex(),
        },
        "words": [str(word) for word in drawn],
        "reply": _reply(reply),
    }


def _plain(number: float) -> float | None:
    return number if np.isfinite(number) else None


def _reply(reply: Message) -> Any:
    if reply.has_error():
        return {"error": [reply.error.code, reply.error.reason]}
    layout, payload = pack(Report.from_record_dict(reply.content).arrays)
    return {"config": {"version": 1, "layout": layout}, "payload": payload.hex()}


def vectors() -> list[Any]:
    """Return all vectors."""
    return [vector(number, *case) for number, case in enumerate(cases())]


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n", "utf-8")
