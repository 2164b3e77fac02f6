"""What costs nothing says nothing of what a run's code has seen, or left behind."""

import logging
import os
import threading
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from flwr.app import Array, ConfigRecord, RecordDict
from guarded_node import EPSILON, Node, fab_of, report_in

from ldp_flower.guarantee.training import RIDER, census
from ldp_flower.supernode.guard.training import Guarded

RAN = "the code of the run was executed"
#: Says so whenever it is executed, in whatever way.
TELLS = f"""
def train(message, context):
    print({RAN!r}, "to train")
    return returned(message)

print({RAN!r}, "by its import")

@app.evaluate()
@app.query()
def tell(message, context):
    print({RAN!r}, "to tell")
    return returned(message)
"""
HONEST = "def train(message, context):\n    return returned(message)\n"


def said(reply):
    """Return all that a server sees of a reply, but when it came, and the bytes of a report."""
    metadata = {name: vars(reply.metadata)[name] for name in ("_group_id", "_message_type")}
    if reply.has_error():
        return metadata, (reply.error.code, reply.error.reason)
    fields = {
        name: {
            key: (value.dtype, value.shape, len(value.data)) if isinstance(value, Array) else value
            for key, value in record.items()
        }
        for name, record in reply.content.items()
    }
    return metadata, fields


# ------------------------------------------------- bits in the page cache of the machine

BITS = ("10110100", "01001011")
#: Reads or drops one file a bit.
WRITES = """
def train(message, context):
    bits = Path(context.node_config["data-path"], "rows.csv").read_text()
    for bit, path in zip(bits, FILES):
        opened = os.open(path, os.O_RDONLY)
        if bit == "1":
            os.read(opened, 1 << 20)
        else:
            os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
    return returned(message)
"""
#: Cannot be loaded if the file is in the cache.
READS = """
def train(message, context):
    return returned(message)

try:
    os.preadv(os.open(FILE, os.O_RDONLY), [bytearray(1)], 0, os.RWF_NOWAIT)
    sys.exit("in the cache")
except BlockingIOError:
    pass
"""


def cached(path):
    opened = os.open(path, os.O_RDONLY)
    try:
        os.preadv(opened, [bytearray(1)], 0, os.RWF_NOWAIT)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(opened)


def holds_a_bit(path):
    """Whether a file can be dropped from the cache, and comes back when it is read."""
    try:
        opened = os.open(path, os.O_RDONLY)
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(opened)
        return not cached(path) and bool(Path(path).read_bytes()) and cached(path)
    except OSError:  # this file system does not tell
        return False


def test_no_unpaid_answer_tells_what_training_left_in_the_page_cache(tmp_path):
    found = (
        str(path)
        for path in sorted(Path("/usr/lib").rglob("*.py")) + sorted(Path("/usr/share").rglob("*"))
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20
    )
    files = list(islice(filter(holds_a_bit, found), len(BITS[0])))
    if len(files) < len(BITS[0]):
        pytest.skip("the file system of /usr does not tell what is in its cache")
    node = Node(tmp_path)
    write = fab_of(WRITES.replace("FILES", repr(files)))
    apps = [fab_of(READS.replace("FILE", repr(path))) for path in files]
    # The control alone is tried again: other programs may read the files, and the kernel may drop
    # them when memory is short. That replies are the same holds in every try.
    for _ in range(3):
        heard, left = [], []
        for bits in BITS:
            (node.data / "rows.csv").write_text(bits)
            report_in(node.ask(write))
            spent = node.spent()
            replies = [node.ask(app, content=census()) for app in apps]
            with rehearsing(node):
                replies += [node.ask(app) for app in apps]
            left.append("".join(str(int(cached(path))) for path in files))  # which fills the cache
            assert node.spent() == spent
            heard.append([said(reply) for reply in replies])
        assert heard[0] == heard[1]
        assert not any(reply.has_error() for reply in replies)
        if tuple(left) == BITS:
            break
    assert tuple(left) == BITS  # all that time it was there for whoever had looked


@contextmanager
def rehearsing(node):
    node.node_config["rehearsal"] = True
    yield
    del node.node_config["rehearsal"]


# ------------------------------------------------------------ whatever code may have left

MALFORMED = RecordDict({RIDER: ConfigRecord({"version": 1, "ask": "everything"})})


def forbidden(node):
    node.node_config["min-epsilon"] = 2 * EPSILON
    return node.ask(fab_of(TELLS))


def exhausted(node):
    node.node_config["max-epsilon"] = EPSILON
    report_in(node.ask(fab_of(HONEST)))
    return node.ask(fab_of(TELLS))


def rehearsed(node):
    with rehearsing(node):
        return node.ask(fab_of(TELLS))


def repeated(node):
    content = node.training()
    report_in(node.ask(fab_of(HONEST), content=content))
    return node.ask(fab_of(TELLS), content=content)


def without_a_ledger(node):
    node.path.unlink()
    return node.ask(fab_of(TELLS))


#: Messages that cost nothing, and the code of their error, if they get one.
UNPAID = {
    "the census": (lambda node: node.ask(fab_of(TELLS), content=census()), None),
    "a rehearsal": (rehearsed, None),
    "a question again": (repeated, None),
    "no question": (lambda node: node.ask(fab_of(TELLS), content=MALFORMED), 100),
    "nothing at all": (lambda node: node.ask(fab_of(TELLS), content=RecordDict()), 100),
    "a mechanism that the policy forbids": (forbidden, 101),
    "evaluation": (lambda node: node.ask(fab_of(TELLS), "evaluate"), 101),
    "a query": (lambda node: node.ask(fab_of(TELLS), "query.tell"), 101),
    "above the budget": (exhausted, 102),
    "no ledger": (without_a_ledger, 103),
}


@pytest.mark.parametrize("which", UNPAID)
def test_nothing_of_a_run_is_executed_for_what_is_not_paid(which, tmp_path, caplog):
    node = Node(tmp_path)
    ask, code = UNPAID[which]
    with caplog.at_level(logging.INFO, "flwr"):
        reply = ask(node)
    assert (reply.error.code if reply.has_error() else None) == code
    assert RAN not in caplog.text


def test_it_is_executed_for_what_is_paid(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "flwr"):
        report_in(Node(tmp_path).ask(fab_of(TELLS)))
    assert f"{RAN} by its import" in caplog.text and f"{RAN} to train" in caplog.text


def test_a_rehearsal_replies_as_training_does_and_costs_nothing(tmp_path):
    node = Node(tmp_path)
    with rehearsing(node):
        reply = node.ask(fab_of(HONEST))
    assert node.spent() == {}
    assert said(reply) == said(node.ask(fab_of(HONEST)))


CANNOT = {
    "is no module": "def train(*_): ...\n)",
    "leaves": "def train(*_): ...\nsys.exit('no data here')\n",
    "has no train function": "def train(*_): ...\napp = ClientApp()\n",
    "reports several users": "def unused(*_): ...\n"
    "from ldp_flower.clients import LdpUserUpdateMod\n"
    "app = ClientApp(mods=[LdpUserUpdateMod(lambda context: None)])\n"
    "@app.train()\ndef train(message, context):\n    return returned(message)\n",
}


@pytest.mark.parametrize("why", CANNOT)
def test_an_app_that_cannot_train_answers_and_pays_like_any_other(why, tmp_path, updates):
    node, fab = Node(tmp_path), fab_of(CANNOT[why])
    assert said(node.ask(fab, content=census())) == said(node.ask(fab_of(HONEST), content=census()))
    assert node.spent() == {}
    assert said(node.ask(fab)) == said(node.ask(fab_of(HONEST)))
    assert updates[0].tolist() == [[0.0] * 5]
    assert node.spent() == {"the silo": 2 * EPSILON}


# ----------------------------------------------------------------------- who can still pay

SLOW = """
def train(message, context):
    if Path(context.node_config["data-path"], "rows.csv").read_text() == "slow":
        import time; time.sleep(5)
    return returned(message)
"""


@pytest.mark.parametrize("data", ["fast", "slow"])
def test_how_long_training_takes_decides_nobody_elses_refusal(data, tmp_path, monkeypatch):
    """Two messages at a time, and budget for one: it is the first one's."""
    node, replies, started = Node(tmp_path), [], threading.Event()
    (node.data / "rows.csv").write_text(data)
    node.node_config["max-epsilon"] = EPSILON
    plain = Guarded._train

    def train(*arguments):
        started.set()
        return plain(*arguments)

    monkeypatch.setattr(Guarded, "_train", train)
    first = threading.Thread(target=lambda: replies.append(node.ask(fab_of(SLOW))))
    first.start()
    assert started.wait(60)
    second = node.ask(fab_of(HONEST))
    first.join()
    report_in(replies[0])
    assert second.error.code == 102


def test_a_question_that_is_asked_again_while_it_is_trained_has_one_answer(tmp_path, monkeypatch):
    node, replies, started = Node(tmp_path), [], threading.Event()
    (node.data / "rows.csv").write_text("slow")
    content, plain = node.training(), Guarded._train

    def train(*arguments):
        started.set()
        return plain(*arguments)

    monkeypatch.setattr(Guarded, "_train", train)
    ask = lambda code: replies.append(node.ask(fab_of(code), content=content))  # noqa: E731
    first = threading.Thread(target=ask, args=(SLOW,))
    first.start()
    assert started.wait(60)
    ask(HONEST)
    first.join()
    one, other = (report_in(reply).to_bytes() for reply in replies)
    assert one == other
    assert node.spent() == {"the silo": EPSILON}
