"""Sums that nobody sees, against a server that does not follow the protocol, and other nodes."""

import base64
import hmac
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from flwr.app import ConfigRecord
from nodes_of_peers import (
    DISHONEST,
    HONEST,
    NAMES,
    NODES,
    SALT,
    USERS,
    Hospitals,
    committed,
    digest_of,
    query,
    total,
    truth,
)
from typer.testing import CliRunner

from ldp_flower.cli.keys import peers
from ldp_flower.clients import shared_sums
from ldp_flower.guarantee import ledger as ledger_module
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.messages import ErrorCode, Report
from ldp_flower.guarantee.peers import KeyFiles, Peer, fingerprint, read_peers
from ldp_flower.guarantee.peers_file import create_key, rotation, write_peers
from ldp_flower.guarantee.shared_sums import Committed, Members
from ldp_flower.randomizers.discrete_gaussian import SIGMA
from ldp_flower.strategies.runtime.shared_sums import choose
from ldp_flower.supernode.bookkeeping import charges
from ldp_flower.supernode.checks import examine
from ldp_flower.supernode.settings import OwnApp, Settings

STRANGER = Ed25519PrivateKey.generate()


@pytest.fixture
def hospitals(tmp_path):
    return Hospitals(tmp_path)


def hidden(numbers):
    """Return the share of small numbers: 1 of 256 if they are uniform."""
    return float(np.mean(np.abs(numbers.astype(float)) < 2.0**55))


def deviations(found, asked, shares):
    """Return the noise of a sum over that of so many nodes."""
    return (found - truth(asked)) / (SIGMA * shares**0.5)


@pytest.mark.slow
def test_a_sum_of_all_is_the_users_with_the_nodes_noise(hospitals):
    # 200 draws: a standard deviation outside [.8, 1.2] has a chance of 1e-4.
    found = [
        deviations(hospitals.run(query(step, 40)), query(step, 40), NODES) for step in range(1, 41)
    ]
    assert 0.8 < np.std(found) < 1.2
    for name in NAMES:
        assert hospitals.ledger(name).spent() == {
            f"{name}-{i}": Cost(1.0, 1e-6, alone=query().randomizer.alone) for i in range(USERS)
        }


def test_a_part_of_the_members_says_nothing(hospitals):
    hospitals.dim = 2048
    asked = query(dim=2048)
    parts = hospitals.sums(asked, hospitals.commits(asked))
    # 2,048 numbers: a share of .02 has a chance below 1e-12 if they are uniform.
    for some in (parts[:1], parts[1:], parts[:-1], parts[:3]):
        assert hidden(total(some)) < 0.02
    assert hidden(total(parts)) == 1.0


def test_nodes_that_answer_for_two_sets_say_nothing(hospitals):
    hospitals.dim = 2048
    asked = query(dim=2048)
    commits = hospitals.commits(asked)
    sets = [commits[:-1] if i < 3 else commits for i in range(NODES - 1)]
    parts = [hospitals.sum(name, asked, one) for name, one in zip(NAMES, sets, strict=False)]
    assert hidden(total(parts)) < 0.02
    assert len({part.arrays["session"].tobytes() for part in parts}) == 2


def test_masks_are_derived_as_the_page_says(hospitals):
    """A second derivation, by HMAC alone: what is left is one node's sum with its own noise."""
    name, asked = NAMES[3], query()
    commits = hospitals.commits(asked)
    with sqlite3.connect(hospitals.folder / f"{name}.db") as connection:
        (secret,) = connection.execute("SELECT secret FROM shared").fetchone()
    report = hospitals.sum(name, asked, commits)
    left = report.arrays["masked"].view(np.uint64).copy()
    for other in commits:
        if other.name == name:
            continue
        own = X25519PrivateKey.from_private_bytes(secret)
        point = own.exchange(X25519PublicKey.from_public_bytes(other.ephemeral))
        extracted = hmac.digest(report.arrays["session"].tobytes(), point, "sha256")
        parts = (b"ldp-flower shared sum 1 pair", *sorted((name.encode(), other.name.encode())))
        info = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        key = hmac.digest(extracted, info + b"\1", "sha256")
        stream = Cipher(ChaCha20(key, bytes(16)), None).encryptor().update(bytes(8 * 5))
        mask = np.frombuffer(stream, "<u8")
        left = left - mask if name < other.name else left + mask
    noise = left.view(np.int64) - truth(asked, [name])
    assert (np.abs(noise) < 7 * SIGMA).all() and (noise != 0).all()


def test_a_session_is_of_one_query_and_of_all_that_members_have_signed(hospitals):
    commits = hospitals.commits(query())
    changed = [
        replace(commits[2], name="site-x"),
        replace(commits[2], key=bytes(32)),
        replace(commits[2], ephemeral=bytes(32)),
    ]
    sets = [commits, commits[1:], *([*commits[:2], one, *commits[3:]] for one in changed)]
    sessions = [Members(tuple(each)).session(bytes(32)) for each in sets]
    sessions.append(Members(tuple(commits)).session(b"\1" * 32))
    assert len(set(sessions)) == len(sessions)


def forged(name, asked, key=STRANGER, ephemeral=b"\7" * 32):
    return committed(name, key, ephemeral, asked)


#: Sets that a server, or a colluding node, hands to the first node: from the hospitals, the query
#: and the honest commits.
SETS = {
    "one node": (lambda h, q, c: c[:1], ErrorCode.SET_TOO_SMALL),
    "one node too few": (lambda h, q, c: c[: HONEST + DISHONEST - 1], ErrorCode.SET_TOO_SMALL),
    "an invented node": (lambda h, q, c: [*c[:5], forged("site-9", q)], ErrorCode.UNKNOWN_PEER),
    "a pinned name with the server's key": (
        lambda h, q, c: [*c[:5], forged("site-5", q)],
        ErrorCode.UNKNOWN_PEER,
    ),
    "a pinned key under another name": (
        lambda h, q, c: [*c[:5], forged("site-7", q, h.keys["site-5"])],
        ErrorCode.UNKNOWN_PEER,
    ),
    "the server's one-time key": (
        lambda h, q, c: [*c[:5], replace(c[5], ephemeral=b"\7" * 32)],
        ErrorCode.SIGNATURE,
    ),
    "a commit to another step": (
        lambda h, q, c: [*c[:5], h.commit("site-5", query(2, salt=SALT + 1))],
        ErrorCode.SIGNATURE,
    ),
    "one node twice": (lambda h, q, c: [*c, c[4]], ErrorCode.TWICE),
    "another's one-time key": (
        lambda h, q, c: [*c[:5], forged("site-5", q, h.keys["site-5"], c[4].ephemeral)],
        ErrorCode.TWICE,
    ),
    "a point of small order": (
        lambda h, q, c: [*c[:5], forged("site-5", q, h.keys["site-5"], bytes(32))],
        ErrorCode.SIGNATURE,
    ),
    "the others": (lambda h, q, c: c[1:], ErrorCode.NOT_A_MEMBER),
    "a commit that the node never made": (
        lambda h, q, c: [forged("site-0", q, h.keys["site-0"]), *c[1:]],
        ErrorCode.NOT_A_MEMBER,
    ),
}


@pytest.mark.parametrize("what", SETS)
def test_a_set_that_is_none_is_refused_before_anybody_pays(hospitals, what):
    make, code = SETS[what]
    asked = query()
    commits = hospitals.commits(asked)
    assert hospitals.sum("site-0", asked, make(hospitals, asked, commits)) == code
    assert hospitals.ledger("site-0").spent() == {}
    # The commit is as good as before.
    assert isinstance(hospitals.sum("site-0", asked, commits), Report)


def test_a_sum_needs_a_commit_to_the_same_query(hospitals):
    asked = query()
    commits = hospitals.commits(asked)
    for other in (query(2), query(honest=HONEST - 1), query(parts=1001), query(salt=SALT + 1)):
        assert hospitals.sum("site-0", other, commits) == ErrorCode.NO_COMMIT


def test_an_answer_is_given_once_for_one_set(hospitals):
    asked = query()
    commits = hospitals.commits(asked)
    first = hospitals.sum("site-0", asked, commits)
    again = hospitals.sum("site-0", asked, commits[::-1])
    assert first.to_bytes() == again.to_bytes()
    assert hospitals.sum("site-0", asked, commits[:5]) == ErrorCode.ANOTHER_SET
    assert hospitals.commit("site-0", asked) == commits[0]
    whole = Cost(1.0, 1e-6, alone=asked.randomizer.alone)
    assert hospitals.ledger("site-0").spent()["site-0-0"] == whole


def test_an_answered_key_is_gone_from_the_file(hospitals):
    asked, file = query(), hospitals.folder / "site-0.db"
    commits = hospitals.commits(asked)
    with sqlite3.connect(file) as connection:
        (secret,) = connection.execute("SELECT secret FROM shared").fetchone()
    assert secret in file.read_bytes()
    hospitals.sum("site-0", asked, commits)
    assert secret not in file.read_bytes()


def test_a_rehearsed_answer_uses_its_masks_up(hospitals):
    """Two answers with the same masks show their difference: the node's own sum, if one is real."""
    asked = query()
    commits = hospitals.commits(asked)
    hospitals.policy["rehearsal"] = True
    first = hospitals.sum("site-0", asked, commits)
    assert hospitals.sum("site-0", asked, commits).to_bytes() == first.to_bytes()
    assert hospitals.sum("site-0", asked, commits[:5]) == ErrorCode.ANOTHER_SET
    del hospitals.policy["rehearsal"]
    assert hospitals.sum("site-0", asked, commits).to_bytes() == first.to_bytes()
    ledger = hospitals.ledger("site-0")
    assert ledger.spent() == {} and not list(charges(ledger))


def test_a_newer_commit_of_a_plan_closes_the_older_one(hospitals):
    first, second = query(1), query(2)
    older, newer = hospitals.commits(first), hospitals.commits(second)
    assert hospitals.sum("site-0", first, older) == ErrorCode.NO_COMMIT
    assert isinstance(hospitals.sum("site-0", second, newer), Report)


def test_a_commit_is_open_for_a_day_and_so_many_at_a_time(hospitals, monkeypatch):
    asked = query()
    commits = hospitals.commits(asked)
    clock = ledger_module.time.time
    monkeypatch.setattr(ledger_module.time, "time", lambda: clock() + 86_401)
    assert hospitals.sum("site-0", asked, commits) == ErrorCode.NO_COMMIT
    monkeypatch.setattr(ledger_module.time, "time", clock)  # a clock that goes back helps nobody
    assert hospitals.sum("site-0", asked, commits) == ErrorCode.NO_COMMIT
    first, last = query(salt=0), query(salt=65)
    older = hospitals.commits(first)
    for run in range(1, 66):
        newer = hospitals.commit("site-1", query(salt=run))
    with sqlite3.connect(hospitals.folder / "site-1.db") as connection:
        assert connection.execute("SELECT COUNT(*) FROM shared").fetchone() == (64,)
    assert hospitals.sum("site-1", first, older) == ErrorCode.NO_COMMIT
    assert hospitals.commit("site-1", last) == newer


def test_what_a_policy_forbids_gets_no_commit(tmp_path):
    asked = query()
    cases = {
        "noise at the node": {"noise": "node", "max-dishonest": None},
        "epsilon": {"max-epsilon": 0.5},
        "alone": {"max-epsilon-alone": 1.5, "max-epsilon": 1.0},
        "delta": {"max-delta": 1e-7},
    }
    for number, (what, policy) in enumerate(cases.items()):
        (tmp_path / str(number)).mkdir()
        hospitals = Hospitals(tmp_path / str(number))
        hospitals.policy |= policy
        hospitals.policy = {k: v for k, v in hospitals.policy.items() if v is not None}
        assert hospitals.commit("site-0", asked) == ErrorCode.FORBIDDEN, what
    # The noise of a node alone needs no commit, and a commit makes no other noise.
    hospitals = Hospitals(tmp_path)
    assert hospitals.commit("site-0", query(honest=1)) == ErrorCode.MALFORMED
    assert hospitals.sum("site-0", query(honest=1), []) == ErrorCode.MALFORMED


def test_a_plan_ends_with_its_parts_and_what_all_lose_alone_is_counted(hospitals):
    for step in (1, 2):
        assert isinstance(hospitals.run(query(step, 4000)), np.ndarray)
    assert hospitals.commit("site-0", query(3, 4000)) == ErrorCode.EXHAUSTED
    alone = query().randomizer.alone
    assert 2 < alone < 2.3
    with sqlite3.connect(hospitals.folder / "site-0.db") as connection:
        assert {row for row in connection.execute("SELECT alone FROM spent")} == {(alone,)}
    hospitals.policy["max-epsilon-alone"] = 2 * alone - 0.01
    assert hospitals.commit("site-0", query(salt=SALT + 1)) == ErrorCode.EXHAUSTED


def test_steps_that_rely_on_more_nodes_are_another_plan(hospitals):
    """Their parts of the noise are smaller, and a user would lose more if all colluded."""
    hospitals.run(query(1))
    hospitals.run(query(2, honest=HONEST + 1))
    alone = [query(honest=each).randomizer.alone for each in (HONEST, HONEST + 1)]
    with sqlite3.connect(hospitals.folder / "site-0.db") as connection:
        assert set(connection.execute("SELECT alone FROM spent")) == {(sum(alone),)}
    assert hospitals.ledger("site-0").spent()["site-0-0"].epsilon == 2.0


def test_budget_that_is_gone_between_commit_and_sum_is_not_spent_again(hospitals):
    asked, other = query(epsilon=2.0), query(salt=SALT + 1, epsilon=2.0)
    commits, others = hospitals.commits(asked), hospitals.commits(other)
    assert isinstance(hospitals.sum("site-0", other, others), Report)
    assert hospitals.sum("site-0", asked, commits) == ErrorCode.EXHAUSTED


def test_keys_are_those_pinned_when_the_sum_is_asked(hospitals):
    asked = query()
    commits = hospitals.commits(asked)
    left = hospitals.keys.pop("site-5")
    hospitals.pin(who=NAMES[:5])
    assert hospitals.sum("site-0", asked, commits) == ErrorCode.UNKNOWN_PEER
    # A rotated key: for some time both are accepted, and one entry a name.
    hospitals.keys["site-5"] = left
    hospitals.new_key("site-5")
    now = datetime.now(UTC).replace(microsecond=0)
    old = left.public_key().public_bytes_raw()
    hospitals.pin(Peer("site-5", old, now + timedelta(hours=1)))
    asked = query(salt=SALT + 1)
    commits = hospitals.commits(asked)
    with_old = [*commits, forged("site-5", asked, left)]
    assert hospitals.sum("site-0", asked, with_old) == ErrorCode.TWICE
    assert all(isinstance(each, Report) for each in hospitals.sums(asked, commits))
    hospitals.pin(Peer("site-5", old, now - timedelta(hours=1)))
    asked = query(salt=SALT + 2)
    commits = [*hospitals.commits(asked, NAMES[:5]), forged("site-5", asked, left)]
    assert hospitals.sum("site-0", asked, commits) == ErrorCode.UNKNOWN_PEER


def test_files_that_others_can_read_or_that_lack_the_node_are_refused(hospitals):
    asked = query()
    key, peers = (hospitals.folder / f"site-0.{kind}" for kind in ("key", "toml"))
    key.chmod(0o644)
    assert hospitals.commit("site-0", asked) == ErrorCode.PEERS_FILE
    key.chmod(0o600)
    whole = peers.read_text()
    for text in (
        "",
        "format = 2\n",
        whole + "\n[[peer]]\nname = 'x'\n",
        whole.replace("site-1", "A"),
    ):
        peers.write_text(text)
        assert hospitals.commit("site-0", asked) == ErrorCode.PEERS_FILE
    lines = whole.split("[[peer]]")
    peers.write_text("[[peer]]".join(part for part in lines if "site-0" not in part))
    assert hospitals.commit("site-0", asked) == ErrorCode.PEERS_FILE
    peers.write_text(whole)
    key.rename(key.with_name("moved"))
    key.symlink_to("moved")
    assert hospitals.commit("site-0", asked) == ErrorCode.PEERS_FILE


@pytest.mark.parametrize("what", ["folder", "unknown curve"])
def test_a_key_file_without_a_key_is_refused_as_such(hospitals, what):
    file = hospitals.folder / "site-0.key"
    file.unlink()
    if what == "folder":
        file.mkdir(mode=0o700)
    else:
        encoded = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
        )
        curve, unknown = bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d030177")
        lines = base64.encodebytes(encoded.replace(curve, unknown))
        file.write_bytes(b"-----BEGIN PRIVATE KEY-----\n" + lines + b"-----END PRIVATE KEY-----\n")
        file.chmod(0o600)
    assert hospitals.commit("site-0", query()) == ErrorCode.PEERS_FILE


def public(key):
    return key.public_key().public_bytes_raw()


def test_only_a_key_whose_time_is_not_over_signs_a_new_one(tmp_path):
    file, now = tmp_path / "peers.toml", datetime.now(UTC).replace(microsecond=0)
    first, second, third = (Ed25519PrivateKey.generate() for _ in range(3))

    def rotated(old, new):
        proof = old.sign(rotation("site-0", public(old), public(new))).hex()
        added = ["add", str(file), "site-0", public(new).hex(), "--proof", proof]
        return CliRunner().invoke(peers, added).exit_code

    over = Peer("site-0", public(first), now - timedelta(days=1))
    write_peers(file, [over])
    assert rotated(first, second) != 0
    write_peers(file, [over, Peer("site-0", public(second))])
    assert rotated(second, third) == 0  # the first key takes no place
    assert {each.key for each in read_peers(file)} == {public(second), public(third)}
    assert CliRunner().invoke(peers, ["remove", str(file), "site-0"]).exit_code == 0
    assert read_peers(file) == []


@pytest.fixture
def open_folder():
    """A folder that other accounts can enter, which pytest's own are not."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_peers_file_that_others_can_write_is_found(open_folder):
    key, file = (open_folder / f"node.{kind}" for kind in ("key", "toml"))
    own = create_key(key)
    write_peers(file, [Peer(f"site-{i}", public(own if i == 0 else STRANGER)) for i in range(2)])
    settings = Settings(OwnApp("no:app"), "", KeyFiles(str(key), str(file)))
    assert not [each for each in examine({}, settings).problems if each.startswith("--")]
    file.chmod(0o666)
    (found,) = [each for each in examine({}, settings).problems if each.startswith("--peers")]
    assert "can write it" in found


def test_nobody_takes_the_place_of_a_node_by_its_name(hospitals):
    asked = query()
    pins = frozenset(fingerprint(public(key)) for key in hospitals.keys.values())
    replies = [Committed(forged("site-5", asked), frozenset())]
    replies += [Committed(each, pins) for each in hospitals.commits(asked)]
    for order in (replies, replies[::-1]):
        chosen = choose(dict(enumerate(order)), digest_of(asked))
        assert set(chosen.commits.values()) == {each.commit for each in replies[1:]}


def test_malformed_sets_are_refused_as_such(hospitals):
    asked = query()
    commits = hospitals.commits(asked)
    good = {
        "names": [c.name for c in commits],
        "keys": [c.key for c in commits],
        "ephemerals": [c.ephemeral for c in commits],
        "signatures": [c.signature for c in commits],
    }
    bad = (
        {},
        {**good, "more": 1},
        {**good, "names": good["names"][:-1]},
        {**good, "names": [*good["names"][:-1], "Site 5"]},
        {**good, "keys": [*good["keys"][:-1], b"short"]},
        {**good, "keys": [1] * NODES},
        {**good, "names": "site"},
        {name: column * 50 for name, column in good.items()},
    )
    for fields in bad:
        content = asked.to_record_dict()
        content["set"] = ConfigRecord(fields)
        assert hospitals.send("site-0", "query.report", content).error.code == ErrorCode.MALFORMED
    without = hospitals.send("site-0", "query.report", asked.to_record_dict())
    assert without.error.code == ErrorCode.MALFORMED
    assert hospitals.ledger("site-0").spent() == {}


def test_a_node_without_keys_shares_no_noise(hospitals, monkeypatch):
    """As under a plain SuperNode, where the code of a run could read the key."""

    class Unset:
        @staticmethod
        def get():
            return None

    monkeypatch.setattr(shared_sums, "operators_files", Unset)
    assert hospitals.commit("site-0", query()) == ErrorCode.MISCONFIGURED


def test_two_sets_that_differ_by_a_node_differ_by_fresh_noise(hospitals):
    """The difference of two sums has the noise of all shares in both, and both runs are paid."""
    hospitals.dim = 500
    one, two = query(dim=500, epsilon=1.4), query(dim=500, epsilon=1.4, salt=SALT + 1)
    first = total(hospitals.sums(one, hospitals.commits(one)))
    commits = hospitals.commits(two, NAMES[:-1])
    second = total(hospitals.sums(two, commits, NAMES[:-1]))
    # 11 shares; 500 draws are outside [.8, 1.2] of their standard deviation once in 1e9 times.
    noise = (first - second - truth(one, NAMES[-1:])) / (SIGMA * 11**0.5)
    assert 0.8 < noise.std() < 1.2
    assert hospitals.ledger("site-0").spent()["site-0-0"].epsilon == 2.8


def test_the_noise_of_honest_nodes_is_what_is_relied_on():
    """Without the noise of those that may collude, a sum has at least its stated cost."""
    mechanism = query().randomizer
    sensitivity = 2 * mechanism.one
    assert sensitivity**2 / (2 * HONEST * SIGMA**2) <= mechanism.rho
    assert mechanism.alone > mechanism.epsilon
    single = replace(mechanism, honest=1)
    assert single.alone == single.epsilon and single.one < mechanism.one
