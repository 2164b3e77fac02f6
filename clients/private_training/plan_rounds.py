"""The rounds of a DP-SGD plan on a node: checks, cost and query, and the report that is stored."""

import hashlib
import json
from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.guarantee.messages import Report
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan

from ..approval import refuse_training
from ..effective_policy import forbid
from ..node import CheckedQuery, Node
from .round import Arrays

_MODEL, _METRIC = "model:", "metric:"  # prefixes of the arrays in a stored reply
NUM_EXAMPLES = "num-examples"


def check_plan(policy: PrivacyPolicy, plan: DpSgdPlan, num_parameters: int) -> None:
    """Raise Refusal if the operator does not allow a plan for this number of parameters."""
    of_records = plan.unit == "record"
    objection = policy.objection_to(
        Cost(plan.epsilon, plan.delta, plan.name, plan.num_rounds),
        num_parameters,
        by_record=of_records,
        noise="user" if of_records else "node",
        exact=False,
    )
    forbid(plan.mechanism, objection)


def cost_of(plan: DpSgdPlan, run: int) -> Cost:
    """Return the privacy cost of a whole plan; a run pays it with its first round."""
    return Cost(plan.epsilon, plan.delta, f"{run} {plan.name}", plan.num_rounds)


def asked_round(node: Node, plan: DpSgdPlan, run: int, kind: str, content: str) -> CheckedQuery:
    """Return the query for one round, at the cost of a run's plan for each account of the node.

    ``content`` is the digest of the message's content. Raise Refusal if the operator has a file of
    approved studies.
    """
    refuse_training(node.terms.studies)
    cost = cost_of(plan, run)
    whole = json.dumps([kind, node.accounts.tolist(), cost.plan, content])
    identity = hashlib.sha256(whole.encode()).hexdigest()
    slots = np.arange(len(node.accounts))
    return CheckedQuery(slots, cost, identity, (kind, plan.mechanism), None)


def report_of(trained: Arrays, metrics: Mapping[str, int | float]) -> Report:
    """Return a report to store for a reply: the trained arrays and the public metrics."""
    return Report(
        {f"{_MODEL}{key}": array for key, array in trained.items()}
        | {f"{_METRIC}{key}": np.array(value) for key, value in metrics.items()}
    )


def as_reply(report: Report, name: str, model: Mapping[str, Array]) -> RecordDict:
    """Return a stored report as the reply that Flower's strategies expect: arrays and metrics."""
    found = report.arrays
    trained = {
        key.removeprefix(_MODEL): Array(array)
        for key, array in found.items()
        if key.startswith(_MODEL)
    }
    arrays = {**model, **trained}
    metrics = {
        key.removeprefix(_METRIC): value.item()
        for key, value in found.items()
        if key.startswith(_METRIC)
    }
    return RecordDict({name: ArrayRecord(arrays), "metrics": MetricRecord(metrics)})
