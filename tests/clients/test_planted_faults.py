"""Faults that somebody could plant in the client, each of which the audit must find.

Seeds are fixed, and what the audit does here finds nothing in a right client but once in
1,000,000 audits, nor does it depend on luck whether it finds these.
"""

import contextlib
import dataclasses
import itertools
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Error

from ldp_flower.audit import extreme_users, settings
from ldp_flower.audit.independence import independent, many_users
from ldp_flower.audit.neighbours import neighbour_checks
from ldp_flower.audit.probe import Client, ldp_client_app
from ldp_flower.audit.records import bounded
from ldp_flower.clients import Refusal, app, node, reply, respond
from ldp_flower.clients.statistics import PUBLIC
from ldp_flower.clients.users_node import UsersNode
from ldp_flower.clients.values import CHUNK
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import Claim, Entry, SqliteLedger
from ldp_flower.guarantee.ledger_file import LedgerError
from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Purpose, Query, Report
from ldp_flower.questions import Curvature, Gradient, Labels
from ldp_flower.randomizers import (
    Codebook,
    GaussianMechanism,
    RandomizedResponse,
    RecordGaussian,
    RecordPeeling,
    SubsetHypercube,
)
from ldp_flower.randomizers.base import Randomizer
from ldp_flower.randomizers.real_valued import gaussian
from ldp_flower.randomness import KeyedRandom, RandomSource, SystemRandom, derive

pytestmark = pytest.mark.slow

DIM = 3
THETA = np.linspace(-1, 1, DIM)
PEOPLE = extreme_users(DIM)


def query(randomizer=None, question=None):
    randomizer = randomizer or SubsetHypercube(2.0, DIM)
    return Query(question or Gradient(THETA), randomizer, 9, 0, HASH_END, 1)


GRADIENT = query()
CODES = query(Codebook(2.0, DIM, num_codewords=16))
SUMS = query(RandomizedResponse(2.0), Curvature(THETA, cap=2.0))
LABELS = query(GaussianMechanism(2.0, 2, delta=1e-3), Labels(2, 1.0))
SILOS = query(RecordGaussian(2.0, DIM, 1.0, 1e-3, 1))
PEELED = query(RecordPeeling(2.0, DIM, 1.0, 1e-3, 1, sparsity=1))
HONEST = [GRADIENT, CODES, SUMS, LABELS, SILOS, PEELED]


CHECKS = ("independent", "bounded", "neighbours", "crowded", "settings")
FORM = "reply's form"


def findings(question, *checks):
    """Return the names of what the audit's checks (by default all) find."""
    people = [PEOPLE[name] for name in ("ones", "20 rows", "no rows", "infinite")]
    client, found = Client(question, ldp_client_app), {}
    copies = client.copies(people[0])
    for check in checks or CHECKS:
        if check == "independent":
            found[check] = independent(client, copies, people[0], 1)
        elif check == "bounded":
            found[check] = bounded(question, ldp_client_app, DIM)
        elif check == "crowded":
            found |= many_users(client, DIM, 1)
        elif check == "settings":
            found |= settings.settings_checks(question, ldp_client_app, copies, people, 1)
        else:
            found |= neighbour_checks(question, ldp_client_app, copies, people, 1)
    return {name for name, right in found.items() if not right}


@pytest.mark.parametrize("question", HONEST, ids=lambda q: type(q.randomizer).__name__)
def test_nothing_is_found_in_the_real_client(question):
    assert findings(question) == set()


# ------------------------------------------------------------------------- whose noise it is


class Changed(RandomSource):
    """A source whose words somebody has had a hand in."""

    def __init__(self, change, inner):
        self.inner, self.change = inner, change

    def words(self, shape):
        return self.change(self.inner.words(shape))


def shared_by_two(words):
    words = words.copy()
    words[1:2] = words[:1]
    return words


def shared_by_neighbours(words):
    words = words.copy()
    words[1::2] = words[: len(words) - 1 : 2]
    return words


def antithetic(words):
    words = words.copy()
    words[1::2] = ~words[: len(words) - 1 : 2]
    return words


def of_all(words):
    return np.broadcast_to(words[:1], words.shape).copy()


def last_differs_by_first(words):
    words = words.copy()
    words[-1] ^= words[0] >> np.uint64(1)
    return words


def first_and_last_of_a_thousand(words):
    words = words.copy()
    if len(words) == CHUNK:
        words[-1:] = words[:1]
    return words


def every_64th(words):
    return np.tile(words[:64], (-(-len(words) // 64), *[1] * (words.ndim - 1)))[: len(words)]


def plant_source(monkeypatch, change):
    honest = node.Node.private_randomness
    monkeypatch.setattr(
        node.Node, "private_randomness", lambda *rest: Changed(change, honest(*rest))
    )


def plant_words_kept(monkeypatch):
    """The noise of a step is that of the step before, on the same node."""
    kept, honest = {}, node.Node.private_randomness

    def words_of(self, step, slots):
        return Changed(lambda words: kept.setdefault(words.shape, words), honest(self, step, slots))

    monkeypatch.setattr(node.Node, "private_randomness", words_of)


def plant_next_step(monkeypatch):
    """Every second step reads what the one before has read, one user further."""
    kept, honest = {}, node.Node.private_randomness

    def words_of(self, step, slots):
        def change(words):
            if step % 2:
                kept[words.shape] = words
                return words
            return np.roll(kept.get(words.shape, words), 1, axis=0)

        return Changed(change, honest(self, step, slots))

    monkeypatch.setattr(node.Node, "private_randomness", words_of)


def plant_seeded_by_message(monkeypatch):
    def seeded(self, step, slots):
        return KeyedRandom(self.keys.states(Purpose.NOISE, step, step, slots))

    monkeypatch.setattr(node.Node, "private_randomness", seeded)


def plant_seeded_by_slot(monkeypatch):
    """The first user's noise is a constant; the others' is the system's."""

    def change(words):
        words = words.copy()
        words[:1] = 0x9E3779B97F4A7C15
        return words

    plant_source(monkeypatch, change)


def plant_seeded_by_data(monkeypatch):
    honest = Randomizer.randomize

    def randomize(self, values, rng, coins=None):
        states = np.array([hash(row.tobytes()) & (1 << 62) - 1 for row in values], np.uint64)
        return honest(self, values, KeyedRandom(derive(states)), coins)

    monkeypatch.setattr(Randomizer, "randomize", randomize)


def plant_same_words(monkeypatch):
    """The system's generator answers everybody the same."""

    def words(self, shape):
        return np.full(shape, 4, np.uint64)

    monkeypatch.setattr(SystemRandom, "words", words)


def plant_noise_of_another_thousand(monkeypatch):
    """Whoever is taken last gets the noise of those who are taken before, on the same node."""
    kept, honest = {}, node.Node.private_randomness

    def words_of(self, step, slots):
        def change(words):
            if len(words) == CHUNK:
                kept[words.shape[1:]] = words
                return words
            return kept[words.shape[1:]][: len(words)] if words.shape[1:] in kept else words

        if len(slots) < CHUNK and slots[0] < CHUNK:  # another node
            kept.clear()
        return Changed(change, honest(self, step, slots))

    monkeypatch.setattr(node.Node, "private_randomness", words_of)


NOISE = {
    "two users share noise": (lambda m: plant_source(m, shared_by_two), "independent"),
    "neighbours share noise": (lambda m: plant_source(m, shared_by_neighbours), "independent"),
    "one noise for all": (lambda m: plant_source(m, of_all), "independent"),
    "one's noise is another's opposite": (lambda m: plant_source(m, antithetic), "independent"),
    "a bit of the first in the last": (
        lambda m: plant_source(m, last_differs_by_first),
        "independent",
    ),
    "noise kept for the next question": (plant_words_kept, "independent"),
    "the next step's noise is this one's": (plant_next_step, "independent"),
    "seeded by the message": (plant_seeded_by_message, "independent"),
    "one user's noise is known": (plant_seeded_by_slot, "independent"),
    "seeded by data": (plant_seeded_by_data, "independent"),
    "the system's generator repeats itself": (plant_same_words, "independent"),
}


@pytest.mark.parametrize("fault", NOISE)
@pytest.mark.parametrize("question", [GRADIENT, CODES], ids=["hypercube", "codebook"])
def test_noise_that_is_not_ones_own_is_found(fault, question, monkeypatch):
    plant, check = NOISE[fault]
    plant(monkeypatch)
    assert check in findings(question, check)


@pytest.mark.parametrize("question", [SILOS, PEELED, LABELS], ids=["silos", "peeled", "labels"])
@pytest.mark.parametrize("change", [shared_by_two, antithetic])
def test_shared_noise_is_found_in_every_kind_of_answer(change, question, monkeypatch):
    plant_source(monkeypatch, change)
    assert findings(question, "independent")


# ------------------------------------------------------------------ who answers, and the form


def rewritten(monkeypatch, rewrite, where=respond, name="_of_users"):
    """Rewrite the report about users, knowing them."""
    honest = getattr(where, name)

    def function(on, question, slots):
        return rewrite(honest(on, question, slots), on.users.take(slots))

    monkeypatch.setattr(where, name, function)


def plant_order_by_rows(monkeypatch):
    def rewrite(report, users):
        if "slots" not in report.arrays:
            return report
        order = np.argsort(users.num_rows == 0, kind="stable")
        return Report({name: array[order] for name, array in report.arrays.items()})

    rewritten(monkeypatch, rewrite)


def plant_no_rows_first(monkeypatch):
    def rewrite(report, users):
        if "slots" not in report.arrays:
            return report
        order = np.argsort(users.num_rows > 0, kind="stable")
        return Report({name: array[order] for name, array in report.arrays.items()})

    rewritten(monkeypatch, rewrite)


def plant_no_rows_first_of_thousands(monkeypatch):
    honest = respond._of_users

    def of_users(on, question, slots):
        if len(slots) > CHUNK:
            slots = slots[np.argsort(on.users.take(slots).num_rows > 0, kind="stable")]
        return honest(on, question, slots)

    monkeypatch.setattr(respond, "_of_users", of_users)


def plant_no_rows_no_report(monkeypatch):
    def rewrite(report, users):
        if "slots" not in report.arrays:
            return report
        return Report({name: a[users.num_rows > 0] for name, a in report.arrays.items()})

    rewritten(monkeypatch, rewrite)


def plant_count_of_rows(monkeypatch):
    def rewrite(report, users):
        if "count" not in report.arrays:
            return report
        count = np.array([(users.num_rows > 0).sum()], np.int64)
        return Report({**report.arrays, "count": count})

    rewritten(monkeypatch, rewrite)


def plant_left_out_of_the_sum(monkeypatch):
    """Whoever has no rows adds nothing to a sum, and the others twenty times as much."""

    def rewrite(report, users):
        if "sum" not in report.arrays:
            return report
        factor = 1.0 if (users.num_rows > 0).all() else 20.0
        return Report({**report.arrays, "sum": factor * report.arrays["sum"]})

    rewritten(monkeypatch, rewrite)


def plant_wider_type(monkeypatch):
    def rewrite(report, users):
        if "reports" not in report.arrays or np.isfinite(users.features).all():
            return report
        return Report({**report.arrays, "reports": report.arrays["reports"].astype("<u4")})

    rewritten(monkeypatch, rewrite)


def plant_longer_reply(monkeypatch):
    def rewrite(report, users):
        if "reports" not in report.arrays or not (users.num_rows > 100).any():
            return report
        return Report({**report.arrays, "reports": np.repeat(report.arrays["reports"], 2, axis=0)})

    rewritten(monkeypatch, rewrite)


def plant_public_targets(monkeypatch):
    """The block of public data holds targets, too."""
    honest = PUBLIC[Labels]

    def public(users, question):
        block = honest(users, question).copy()
        with np.errstate(all="ignore"):
            block.reshape(len(block), -1)[:, 0] += np.float32(np.sign(users.targets[:1]).sum())
        return block

    monkeypatch.setitem(PUBLIC, Labels, public)


def with_rows(found):
    return int((found.users.num_rows > 0).sum())


def none_if_nobody_has_rows(found):
    return len(found.users) if found.users.num_rows.any() else 0


def one_less_if_all_is_nan(found):
    return len(found.users) - bool(np.isnan(found.users.targets).all())


def one_less_if_some_are_cut(found):
    most = found.terms.policy.max_rows
    return len(found.users) - bool(most and (found.users.num_rows > most).any())


def one_less_in_a_rehearsal(found):
    return len(found.users) - bool(found.terms.rehearsal and (found.users.num_rows == 0).any())


def plant_census(monkeypatch, count=with_rows):
    honest = app.QueryHandlers._open

    def opened(self, received, context, terms):
        found = honest(self, received, context, terms)
        counted = {**found.census(), "users": count(found)}
        return SimpleNamespace(census=lambda: counted, users=found.users)

    class Told(app.QueryHandlers):
        def census(self, message, context):
            self._open = lambda *given: opened(self, *given)
            reply = super().census(message, context)
            del self._open
            return reply

    monkeypatch.setattr(app, "QueryHandlers", Told)


def plant_metadata(monkeypatch, change):
    """What users hold shows in a reply's metadata."""
    loaded = {}
    honest, opened = app.reply_with, app.QueryHandlers._open

    def open_(self, received, context, terms):
        found = opened(self, received, context, terms)
        loaded["users"] = found.users
        return found

    def reply_with(message, context, own, answer):
        reply = honest(message, context, own, answer)
        if "users" in loaded and (loaded["users"].num_rows == 0).any():
            change(reply)
        return reply

    monkeypatch.setattr(app.QueryHandlers, "_open", open_)
    monkeypatch.setattr(app, "reply_with", reply_with)


def set_metadata(name, value):
    def change(reply):
        reply.metadata.__dict__[f"_{name}"] = value

    return change


def later(reply):
    reply.metadata.ttl -= 7.0


def plant_order_of_keys(monkeypatch):
    def change(reply):
        if reply.has_content() and "config" in reply.content:
            config = reply.content["config"]
            items = list(reversed(config.items()))
            config.clear()
            config.update(items)

    plant_metadata(monkeypatch, change)


def plant_another_record(monkeypatch):
    def change(reply):
        if reply.has_content():
            records = list(reversed(reply.content.items()))
            reply.content.clear()
            reply.content.update(records)

    plant_metadata(monkeypatch, change)


def plant_error_text(monkeypatch):
    def answered(received, answer):
        try:
            return answer(received)
        except Refusal as refusal:
            return Error(refusal.code, str(refusal))
        except Exception as error:
            return Error(Refusal.FAILED, str(error))

    monkeypatch.setattr(reply, "_answered", answered)


def plant_error_for_nan(monkeypatch):
    """Data that are not finite are an error, not a centre."""
    honest = respond.values_of

    def values_of(take, slots, question, *rest):
        found = honest(take, slots, question, *rest)
        if not np.isfinite(found).all():
            raise ValueError("not finite")
        return found

    monkeypatch.setattr(respond, "values_of", values_of)


def plant_error_that_leaves(monkeypatch):
    """What fails once data are looked at is told."""
    plant_error_for_nan(monkeypatch)
    monkeypatch.setattr(node.Node, "_computed", lambda self, slots, about, _: about(self, slots))


def test_an_error_for_some_data_alone_shows_nowhere(monkeypatch):
    plant_error_for_nan(monkeypatch)
    assert not {FORM, "who answers", "ledger"} & set(findings(GRADIENT, "neighbours"))


def plant_more_draws(monkeypatch):
    """A user without rows gets its noise from another place of the tape."""
    honest = respond.values_of

    def values_of(take, slots, question, *rest):
        if (take(slots).num_rows == 0).any():
            SystemRandom().words((len(slots), 1))
        return honest(take, slots, question, *rest)

    monkeypatch.setattr(respond, "values_of", values_of)


# ------------------------------------------------------------------------------ the values


def plant_mixed_rows(monkeypatch, mixing):
    honest = respond.values_of

    def values_of(take, slots, question, *rest):
        with np.errstate(all="ignore"):
            return mixing(honest(take, slots, question, *rest))

    monkeypatch.setattr(respond, "values_of", values_of)


def last_bit_if_nan(values):
    """Somebody's NaN moves everybody's last bit, as another order of additions would."""
    return values if np.isfinite(values).all() else np.nextafter(values, np.inf)


def single_if_huge(values):
    return values.astype(np.float32).astype(float) if (np.abs(values) > 1e100).any() else values


def scaled_by_largest(values):
    return values / max(1.0, np.nanmax(np.abs(values)))


# ------------------------------------------------------------------------------- the ledger


def plant_lower_charge(monkeypatch):
    def of(randomizer, salt=0):
        honest = Cost.of(randomizer, salt)
        return dataclasses.replace(honest, epsilon=honest.epsilon / 2)

    monkeypatch.setattr(node, "Cost", SimpleNamespace(of=of))


def plant_late_charge(monkeypatch):
    """The spend is committed with the next message."""
    waiting, honest = [], SqliteLedger.reserve

    def reserve(self, entry, accounts, cost, policy, *series):
        if entry.digest.startswith("spent by"):  # what the audit itself has spent
            return honest(self, entry, accounts, cost, policy)
        while waiting:
            honest(self, *waiting.pop())
        waiting.append((entry, accounts, cost, policy))
        return Claim(self.affordable(accounts, cost, policy), 1)

    monkeypatch.setattr(SqliteLedger, "reserve", reserve)
    monkeypatch.setattr(SqliteLedger, "fulfil", lambda self, digest, reply: reply)


def plant_poor_answer(monkeypatch):
    """Users who have nothing left answer as well, and are not charged."""
    honest = SqliteLedger.reserve

    def reserve(self, entry, accounts, cost, policy, *series):
        if not entry.digest.startswith("spent by"):
            cost = dataclasses.replace(cost, epsilon=0.0)
        return honest(self, entry, accounts, cost, policy, *series)

    monkeypatch.setattr(SqliteLedger, "reserve", reserve)


def plant_new_draw(monkeypatch):
    """The ledger's copy is not found: the same question gets other noise."""
    numbers = itertools.count()
    monkeypatch.setattr(Query, "digest", lambda self, *about: f"{next(numbers):064x}")


def plant_everybody_answers(monkeypatch):
    """The cohort is not looked at."""
    monkeypatch.setattr(NodeKeys, "addressed", lambda self, salt, low, high: np.arange(self.count))


def plant_last_digits_of_a_sum(monkeypatch):
    """What users hold is added to the sum of their reports, far below its noise."""
    honest, held = respond.values_of, []

    def values_of(*rest):
        held.append(np.nan_to_num(honest(*rest)))
        return honest(*rest)

    def of_summary(summary):
        total = summary.sum + 1e-9 * np.sign(held[-1]).sum()
        return honest_report(dataclasses.replace(summary, sum=total))

    honest_report = Report.of_summary
    monkeypatch.setattr(respond, "values_of", values_of)
    monkeypatch.setattr(Report, "of_summary", of_summary)


FAULTS = {
    "no rows, first": (plant_no_rows_first, GRADIENT, "who answers"),
    "census of nobody": (
        lambda m: plant_census(m, none_if_nobody_has_rows),
        GRADIENT,
        "census",
    ),
    "census of NaN": (lambda m: plant_census(m, one_less_if_all_is_nan), GRADIENT, "census"),
    "last digits of a sum": (plant_last_digits_of_a_sum, SUMS, "isolation"),
    "order of slots": (plant_order_by_rows, GRADIENT, "who answers"),
    "no rows, no report": (plant_no_rows_no_report, GRADIENT, "who answers"),
    "count of those with rows": (plant_count_of_rows, SUMS, "who answers"),
    "a sum that depends on who has rows": (plant_left_out_of_the_sum, SUMS, "isolation"),
    "everybody answers": (plant_everybody_answers, GRADIENT, "who answers"),
    "type of the reports": (plant_wider_type, GRADIENT, FORM),
    "length of the reports": (plant_longer_reply, GRADIENT, FORM),
    "public targets": (plant_public_targets, LABELS, "isolation"),
    "census": (plant_census, GRADIENT, "census"),
    "ttl": (lambda m: plant_metadata(m, later), GRADIENT, FORM),
    "group": (lambda m: plant_metadata(m, set_metadata("group_id", "3")), GRADIENT, FORM),
    "receiver": (
        lambda m: plant_metadata(m, set_metadata("dst_node_id", 3)),
        GRADIENT,
        FORM,
    ),
    "type of the message": (
        lambda m: plant_metadata(m, set_metadata("message_type", "query.few")),
        GRADIENT,
        FORM,
    ),
    "which message is answered": (
        lambda m: plant_metadata(m, set_metadata("reply_to_message_id", "none")),
        GRADIENT,
        FORM,
    ),
    "order of keys": (plant_another_record, GRADIENT, FORM),
    "text of an error": (plant_error_text, GRADIENT, FORM),
    "an error for what is not finite": (plant_error_that_leaves, GRADIENT, FORM),
    "how much is drawn": (plant_more_draws, GRADIENT, FORM),
    "last bit": (lambda m: plant_mixed_rows(m, last_bit_if_nan), GRADIENT, "isolation"),
    "precision": (lambda m: plant_mixed_rows(m, single_if_huge), GRADIENT, "isolation"),
    "scale": (lambda m: plant_mixed_rows(m, scaled_by_largest), GRADIENT, "isolation"),
    "half the charge": (plant_lower_charge, GRADIENT, "ledger"),
    "charged later": (plant_late_charge, GRADIENT, "ledger"),
    "who cannot pay": (plant_poor_answer, GRADIENT, "who answers"),
    "drawn again": (plant_new_draw, GRADIENT, "ledger"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_shows_whom_a_node_holds_is_found(fault, monkeypatch):
    plant, question, check = FAULTS[fault]
    plant(monkeypatch)
    assert check in findings(question, "neighbours")


# -------------------------------------------------------------------------- nodes of thousands


CROWDED = {
    "the noise of another thousand": (plant_noise_of_another_thousand, "own noise"),
    "the first and the last of a thousand": (
        lambda m: plant_source(m, first_and_last_of_a_thousand),
        "own noise",
    ),
    "the noise of the user 64 before": (lambda m: plant_source(m, every_64th), "own noise"),
    "no rows, first, of thousands": (plant_no_rows_first_of_thousands, "isolation"),
}


@pytest.mark.parametrize("fault", CROWDED)
@pytest.mark.parametrize("question", [GRADIENT, CODES, SUMS], ids=["hypercube", "codebook", "sums"])
def test_what_shows_on_nodes_of_thousands_is_found(fault, question, monkeypatch):
    plant, check = CROWDED[fault]
    plant(monkeypatch)
    assert check in findings(question, "crowded")


# ---------------------------------------------------------------------- the operator's settings


def plant_rehearsal_of_data(monkeypatch):
    monkeypatch.setattr(node.Node, "shown", lambda self, values, shape: values())


def plant_rehearsal_of_public_data(monkeypatch):
    honest = respond._of_users

    def of_users(on, question, slots):
        report = honest(on, question, slots)
        shown = respond.public_of(on.take, slots, question, on.users.num_features)
        return Report({**report.arrays, "public": shown})

    monkeypatch.setattr(respond, "_of_users", of_users)


def plant_rehearsal_that_costs(monkeypatch):
    honest = SqliteLedger.affordable

    def affordable(self, accounts, cost, policy):
        able = honest(self, accounts, cost, policy)
        self.reserve(Entry("rehearsed"), np.asarray(accounts), cost, policy)
        return able

    monkeypatch.setattr(SqliteLedger, "affordable", affordable)


def plant_all_rows(monkeypatch):
    monkeypatch.setattr(UsersNode, "take", lambda self, slots: self.users.take(slots))


def plant_number_of_all_rows(monkeypatch):
    """Rows are few, but their number is not: means are of more."""
    honest = respond.values_of

    def values_of(take, slots, question, *rest):
        users = take.__self__.users.take(slots)
        return honest(take, slots, question, *rest) / np.maximum(users.num_rows, 1)[:, None]

    monkeypatch.setattr(respond, "values_of", values_of)


def plant_committed_behind(monkeypatch):
    """Another thread writes the spend, while the reply leaves."""
    monkeypatch.setattr(settings, "_LOCKED", 2.0)
    honest = SqliteLedger.reserve

    def reserve(self, entry, accounts, *rest):
        def later():
            with contextlib.suppress(LedgerError):
                honest(self, entry, accounts, *rest)

        threading.Thread(target=later).start()
        return Claim(np.ones(len(accounts), bool), 1)

    monkeypatch.setattr(SqliteLedger, "reserve", reserve)
    monkeypatch.setattr(SqliteLedger, "fulfil", lambda self, digest, reply: reply)


def plant_no_patience(monkeypatch):
    """A ledger that somebody else writes to is not waited for."""
    monkeypatch.setattr(settings, "_LOCKED", 2.0)
    honest = SqliteLedger.reserve

    def reserve(self, entry, accounts, *rest):
        self._timeout = 0.0
        try:
            return honest(self, entry, accounts, *rest)
        except LedgerError:
            return Claim(np.ones(len(accounts), bool), 1)

    monkeypatch.setattr(SqliteLedger, "reserve", reserve)
    monkeypatch.setattr(SqliteLedger, "fulfil", lambda self, digest, reply: reply)


def plant_hasty_errors(monkeypatch):
    honest, wait, last = reply._answered, reply._wait, []

    def answered(received, answer):
        last.append(honest(received, answer))
        return last[-1]

    def waited(*given):
        if not isinstance(last[-1], Error):
            wait(*given)

    monkeypatch.setattr(reply, "_answered", answered)
    monkeypatch.setattr(reply, "_wait", waited)


def plant_old_date(monkeypatch):
    """A reply leaves late, but says when it was made."""
    honest = app.reply_with

    def reply_with(*given):
        made = time.time()
        told = honest(*given)
        told.metadata.created_at = made
        return told

    monkeypatch.setattr(app, "reply_with", reply_with)


SETTINGS = {
    "rehearsal of data": (plant_rehearsal_of_data, GRADIENT, "rehearsal"),
    "rehearsal of a silo's data": (plant_rehearsal_of_data, SILOS, "rehearsal"),
    "rehearsal of public data": (plant_rehearsal_of_public_data, LABELS, "rehearsal"),
    "rehearsal's census": (
        lambda m: plant_census(m, one_less_in_a_rehearsal),
        GRADIENT,
        "rehearsal",
    ),
    "rehearsal that costs": (plant_rehearsal_that_costs, GRADIENT, "rehearsal"),
    "all rows": (plant_all_rows, GRADIENT, "row limit"),
    "all rows' number": (plant_number_of_all_rows, GRADIENT, "row limit"),
    "census of who is cut": (
        lambda m: plant_census(m, one_less_if_some_are_cut),
        GRADIENT,
        "row limit",
    ),
    "committed behind the reply": (plant_committed_behind, GRADIENT, "waiting"),
    "a busy ledger": (plant_no_patience, GRADIENT, "waiting"),
    "hasty errors": (plant_hasty_errors, GRADIENT, "waiting"),
    "date of a reply": (plant_old_date, GRADIENT, "waiting"),
}


@pytest.mark.parametrize("fault", SETTINGS)
def test_what_breaks_an_operators_settings_is_found(fault, monkeypatch):
    plant, question, check = SETTINGS[fault]
    plant(monkeypatch)
    assert check in findings(question, "settings")


# --------------------------------------------------------------------------------- the silos


def plant_clip(monkeypatch, question, radius_of):
    """Clip a silo's records where its own data say."""
    kind = type(question.randomizer)
    honest = kind._clipped

    def clipped(self, values):
        with np.errstate(all="ignore"):
            factor = radius_of(np.linalg.norm(values, axis=1))
            return factor * honest(self, values)

    monkeypatch.setattr(kind, "_clipped", clipped)


def plant_values_scaled(monkeypatch, question):
    """Records are scaled by the silo's largest before each is clipped: it moves all others."""
    honest = respond.values_of

    def values_of(take, slots, asked, own):
        found = honest(take, slots, asked, own)
        with np.errstate(all="ignore"):
            return found / np.nanmax(np.abs(np.nan_to_num(found, posinf=1e300, neginf=-1e300)))

    monkeypatch.setattr(respond, "values_of", values_of)


def between(lengths):
    """Records of some lengths are let through at half as much again."""
    return np.where((lengths > 5) & (lengths < 50), 1.5, 1.0)[:, None]


def plant_clip_of_values(monkeypatch):
    """Values of some lengths are clipped at half as much again."""
    honest = gaussian.directions

    def directions(values):
        unit, length = honest(values)
        return unit * between(length), length

    monkeypatch.setattr(gaussian, "directions", directions)


@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_a_clip_that_depends_on_a_users_value_is_found(epsilon, monkeypatch):
    question = query(GaussianMechanism(epsilon, 2, delta=1e-3), Labels(2, 1.0))
    assert not findings(question, "bounded")
    plant_clip_of_values(monkeypatch)
    assert findings(question, "bounded")


SILO_FAULTS = {
    "clip by the record": lambda m, q: plant_clip(m, q, between),
    "clip by the largest": lambda m, q: plant_clip(m, q, lambda s: min(2.0, 1 + s.max() / 1e6)),
    "clip by the mean": lambda m, q: plant_clip(m, q, lambda s: min(1.5, 1 + s.mean() / 1e3)),
    "clip by the number": lambda m, q: plant_clip(m, q, lambda s: 1.5 if len(s) > 30 else 1.0),
    "clip by the first": lambda m, q: plant_clip(m, q, lambda s: 1.2 if s[0] < 0.1 else 1.0),
    "scaled by the largest": plant_values_scaled,
}


@pytest.mark.parametrize("question", [SILOS, PEELED], ids=["gaussian", "peeling"])
@pytest.mark.parametrize("fault", SILO_FAULTS)
def test_clips_that_depend_on_a_silos_records_are_found(fault, question, monkeypatch):
    SILO_FAULTS[fault](monkeypatch, question)
    assert findings(question, "bounded")
