"""Silos: each user of the node is one, and each of its records is protected by itself.

A record takes the place of a user: its value is that of a user who has this row and no
other, so that no statistic can mix records before the mechanism has brought each into
its domain. One that is not finite counts, and is at the centre.
"""

import logging
from dataclasses import replace

import numpy as np

from ldp_flower.guarantee.keys import Slots
from ldp_flower.guarantee.messages import Query, Report
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers import RecordMechanism

from .compute import CHUNK, UsersNode, values_of


def of_silos(node: UsersNode, query: Query, slots: Slots) -> Report:
    """Return the report of each silo about the sum over its records."""
    mechanism = query.randomizer
    assert isinstance(mechanism, RecordMechanism)
    totals = np.zeros((len(slots), mechanism.width))
    counts = np.zeros(len(slots))
    centre = query.question.record_centre
    for i in range(len(slots)):
        records = _records(node, slots[i : i + 1])
        # In simulation a silo need not declare how many records it has.
        counts[i] = max(node.terms.policy.num_records or len(records), 1)
        for start in range(0, len(records), CHUNK):
            chunk = np.arange(start, min(start + CHUNK, len(records)))
            values = node.shown(values_of(records.take, chunk, query, node.own))
            totals[i] += mechanism.total(values)
    randomness = node.private_randomness(query.step, slots)
    return Report.of_reports(slots, mechanism.report(totals, counts, randomness, centre))


def _records(node: UsersNode, slot: Slots) -> Users:
    """Return a silo's records, each as a user of its own; none if they cannot be had."""
    try:
        silo = node.take(slot)
    except Exception:
        logging.getLogger(__name__).exception("A silo has no records that can be read.")
        return Users(np.zeros((0, node.users.num_features)), np.zeros(0), np.zeros(1, np.int64))
    rows = silo.take(np.zeros(1, np.int64), node.terms.policy.num_records)
    return replace(rows, offsets=np.arange(len(rows.features) + 1), ids=None)
