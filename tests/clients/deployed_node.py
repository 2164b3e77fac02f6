"""A node of a deployment: the real handlers of a ClientApp, outside any simulation.

A module of its own, so that processes that a test starts can import it.
"""

import multiprocessing
import signal
import time
from contextlib import suppress
from functools import lru_cache
from uuid import uuid4

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Query, Report
from ldp_flower.questions import Gradient
from ldp_flower.randomizers import SubsetHypercube

NODE_ID = 5
SALT = 7
DIM = 4


@lru_cache(maxsize=1)
def users(number):
    """Return users with stable ids and one record each."""
    rng = np.random.default_rng(0)
    features = rng.choice([-1.0, 1.0], (number, DIM))
    return Users.from_rows(features, features[:, 0], [f"patient-{i:04d}" for i in range(number)])


def load_users(context):
    """Return as many users as the node's operator says."""
    return users(context.node_config["num-users"])


def hashes(number):
    """Return where each of the node's users lies between the cuts of a query."""
    return [int(position) for position in NodeKeys(NODE_ID, 0, number).hashes(SALT)]


def query(step, low=0, high=HASH_END, epsilon=1.0):
    """Return a question to the users whose hash lies in ``[low, high)``; by default all."""
    randomizer = SubsetHypercube(epsilon, DIM)
    return Query(Gradient(np.zeros(DIM)), randomizer, SALT, low, high, step)


def ask(app, question, node_config, run_config=None):
    """Hand a query to a ClientApp as its SuperNode does: or the census, None or a text.

    The text is what the census asks for besides.
    """
    if vars(TaskIdentity)["_run_id"] is None:  # messages belong to one of Flower's processes
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
    if question is None or isinstance(question, str):
        asked = RecordDict({} if question is None else {question: ConfigRecord()})
        message = Message(asked, NODE_ID, "query.census")
    else:
        message = Message(question.to_record_dict(), NODE_ID, "query.report")
    message.metadata.__dict__["_message_id"] = str(uuid4())
    context = Context(
        run_id=1,
        node_id=NODE_ID,
        node_config=node_config,
        state=RecordDict(),
        run_config=run_config or {},
    )
    reply = app(message, context)
    # A SuperNode waits for ever for a reply to its message that never comes.
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    return reply


def report_in(reply):
    """Return the bytes of the report in a reply, or the code of its error."""
    if reply.has_error():
        return reply.error.code
    return Report.from_record_dict(reply.content).to_bytes()


def answer(question, node_config):
    """Return what a node that has just been started answers: report bytes or error code."""
    return report_in(ask(LdpClientApp(load_users), question, node_config))


def sent_until_killed(delay, questions, node_config):
    """Let a node answer questions and kill it (-9) after some seconds.

    Returns what left the handler, and whether the node died inside it. The node is
    forked from this process, which saves it the imports and wants no other threads here.
    """
    processes = multiprocessing.get_context("fork")
    receiver, sender = processes.Pipe(duplex=False)
    node = processes.Process(target=_answer_all, args=(sender, questions, node_config))
    node.start()
    sender.close()
    heard = [receiver.recv()]  # the first question has come
    time.sleep(delay)
    node.kill()
    node.join()
    assert node.exitcode == -signal.SIGKILL
    with suppress(EOFError):
        while True:
            heard.append(receiver.recv())
    return [message for message in heard if message is not None], heard[-1] is None


def _answer_all(sender, questions, node_config):
    for question in questions:
        sender.send(None)
        sender.send(answer(question, node_config))
