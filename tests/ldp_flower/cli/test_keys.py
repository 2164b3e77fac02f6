"""Commands for the keys of nodes that share their noise."""

import re
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from ldp_flower.cli import app
from ldp_flower.cli import keys as commands
from ldp_flower.guarantee import peers
from ldp_flower.guarantee.peers import KeyFiles, PeersError, PinnedPeers, read_key, read_peers
from ldp_flower.guarantee.peers_file import create_key, shown


def run(*arguments):
    return CliRunner().invoke(app.app, [str(each) for each in arguments])


def done(*arguments):
    found = run(*arguments)
    assert found.exit_code == 0, found.output
    return found.output


def told(output):
    """Return the arguments of `peers add` in an output, and the fingerprint."""
    command = re.search(r"ldp-flower peers add peers.toml (\S+) (\S+)(?: --proof (\S+))?", output)
    fingerprint = re.search(r"fingerprint:?\s+((?:[0-9a-f]{4}\s+)+[0-9a-f]{4})", output)
    return [*filter(None, command.groups())], fingerprint and " ".join(fingerprint[1].split())


@pytest.fixture
def site(tmp_path):
    """A node that has its own key and that of another, pinned by fingerprint."""
    for name in ("ours", "theirs"):
        output = done("keys", "create", tmp_path / f"{name}.key", name)
        (own, key), fingerprint = told(output)
        again = done("keys", "show", tmp_path / f"{name}.key", name)
        assert told(again) == ([own, key], fingerprint)
        pinned = ("--fingerprint", fingerprint, "--checked", 'by "phone"')
        done("peers", "add", tmp_path / "peers.toml", own, key, *pinned)
    return tmp_path


def test_pinned_keys_are_those_that_a_node_reads(site):
    found = PinnedPeers.read(KeyFiles(str(site / "ours.key"), str(site / "peers.toml")))
    assert found.name == "ours" and set(found.pins) == {"ours", "theirs"}
    assert (site / "ours.key").stat().st_mode & 0o777 == 0o600
    shown = done("peers", "show", site / "peers.toml")
    assert "theirs" in shown and "phone" in shown
    assert found.accepts("theirs", read_key(site / "theirs.key").public_key().public_bytes_raw())
    assert not found.accepts("theirs", found.key)


def test_a_name_is_checked_before_a_key_is_made(tmp_path):
    refused = run("keys", "create", tmp_path / "node.key", "Dr. X")
    assert refused.exit_code == 2 and "'Dr. X'" in refused.stderr
    assert not (tmp_path / "node.key").exists()


def test_another_fingerprint_is_refused(site):
    key = create_key(site / "stranger.key").public_key().public_bytes_raw().hex()
    before = (site / "peers.toml").read_text()
    for fingerprint in ("0000 " * 7 + "0000", ""):
        refused = run("peers", "add", site / "peers.toml", "new", key, "--fingerprint", fingerprint)
        assert refused.exit_code == 1
    assert (site / "peers.toml").read_text() == before


def test_a_rotated_key_is_accepted_by_its_proof_beside_the_old_one(site):
    arguments, _ = told(done("keys", "rotate", site / "theirs.key", "theirs"))
    name, key, proof = arguments
    for other in (("ours", key, proof), (name, key, "00" * 64), (name, "0" * 64, proof)):
        refused = run("peers", "add", site / "peers.toml", *other[:2], "--proof", other[2])
        assert refused.exit_code == 1 and "proof" in refused.output
    done("peers", "add", site / "peers.toml", name, key, "--proof", proof)
    old, new = (each for each in read_peers(site / "peers.toml") if each.name == "theirs")
    left = old.until - datetime.now(UTC)
    assert timedelta(days=13) < left <= timedelta(days=14) and new.until is None
    done("keys", "switch", site / "theirs.key")
    assert read_key(site / "theirs.key").public_key().public_bytes_raw() == new.key
    files = KeyFiles(str(site / "theirs.key"), str(site / "peers.toml"))
    assert len(PinnedPeers.read(files).pins["theirs"]) == 2
    later = PinnedPeers.read(files, now=old.until)
    assert later.pins["theirs"] == (new.key,)


def test_a_removed_peer_is_accepted_no_more(site):
    done("peers", "remove", site / "peers.toml", "theirs")
    assert [each.name for each in read_peers(site / "peers.toml")] == ["ours"]
    assert run("peers", "remove", site / "peers.toml", "theirs").exit_code == 1


def test_what_is_no_key_or_no_peer_is_refused(site):
    assert run("keys", "create", site / "ours.key", "ours").exit_code == 1  # it exists
    for name, key in (("Ours", "0" * 64), ("ours-2", "0" * 63), ("x" * 41, "0" * 64)):
        refused = run("peers", "add", site / "peers.toml", name, key, "--fingerprint", "")
        assert refused.exit_code == 1 and "Expected" in refused.output
    (site / "ours.key").chmod(0o640)
    with pytest.raises(PeersError, match="chmod 600"):
        read_key(site / "ours.key")
    assert run("keys", "show", site / "ours.key", "ours").exit_code == 1
    for text in ("format = 1", "format = 1\npeer = 3", "format = 1\n[[peer]]\nname = 'a'"):
        (site / "peers.toml").write_text(text)
        with pytest.raises(PeersError, match="Expected"):
            read_peers(site / "peers.toml")


def test_peers_that_are_added_at_once_are_all_in_the_file(tmp_path, monkeypatch):
    """Each command waits after it has read the file, so that without a lock one would be lost."""
    reading = threading.Barrier(2)
    read = peers.read_peers

    def slow(path):
        listed = read(path)
        with suppress(threading.BrokenBarrierError):  # with a lock, the other cannot come here
            reading.wait(timeout=0.3)
        return listed

    file = tmp_path / "peers.toml"
    keys = [create_key(tmp_path / f"{i}.key").public_key().public_bytes_raw() for i in range(3)]
    commands.peers_add(file, "a", keys[0].hex(), None, shown(keys[0]), "")
    monkeypatch.setattr(peers, "read_peers", slow)
    threads = [
        threading.Thread(
            target=commands.peers_add, args=(file, name, key.hex(), None, shown(key), "")
        )
        for name, key in zip("bc", keys[1:], strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {peer.name for peer in read_peers(file)} == {"a", "b", "c"}
