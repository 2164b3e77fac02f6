"""What is refused before a node starts, and the filter of system calls."""

import errno
import os
import pwd
import shutil
import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, RecordDict
from guarded_node import EPSILON, Node, fab_of

from ldp_flower.supernode.checks import examine
from ldp_flower.supernode.guard import system_calls
from ldp_flower.supernode.guard.limits import Limits
from ldp_flower.supernode.guard.sandbox import Sandbox, SandboxError
from ldp_flower.supernode.settings import Settings, Training


def test_a_good_node_is_not_refused(tmp_path):
    node = Node(tmp_path)
    node.operator.check(node.node_config)


def refused(node, text, **config):
    with pytest.raises(SandboxError, match=text):
        node.operator.check(node.node_config | config)


def test_a_ledger_among_the_data_is_refused(tmp_path):
    node = Node(tmp_path)
    refused(node, "which training may read", **{"ledger-path": str(node.data / "ledger.db")})
    os.link(node.path, node.data / "rows-2.csv")
    refused(node, "rows-2.csv among the data")


def test_a_ledger_where_the_library_is_installed_is_refused(tmp_path):
    refused(Node(tmp_path), "which training may read", **{"ledger-path": system_calls.__file__})


def test_a_way_out_among_the_data_is_refused(tmp_path):
    node = Node(tmp_path)
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(node.data / "door"))
        refused(node, "door among the data is a socket")
    (node.data / "door").unlink()
    os.mkfifo(node.data / "pipe")
    refused(node, "pipe among the data")


def test_data_that_training_on_other_nodes_could_read_are_refused(tmp_path, monkeypatch):
    node = Node(tmp_path)
    node.operator = replace(node.operator, sandbox=Sandbox((Path("/usr/share"),)))
    refused(node, "/usr/share lies in /usr, which training on every guarded node")
    monkeypatch.setattr("ldp_flower.supernode.guard.sandbox.folders", lambda: [tmp_path])
    node.operator = replace(node.operator, sandbox=Sandbox((node.data,)))
    monkeypatch.delitem(node.node_config, "ledger-path")
    refused(node, "data lies in .* on every guarded node")


def test_data_that_do_not_exist_or_cannot_be_read_are_refused(tmp_path):
    node = Node(tmp_path)
    node.data.chmod(0)
    account = pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else "nobody"
    refused(node, rf"Training runs as {account}, who cannot read {node.data}: chown it\.$")
    node.data.chmod(0o755)
    shutil.rmtree(node.data)
    refused(node, "paths that exist")


def test_settings_that_would_let_data_out_are_refused(tmp_path):
    node = Node(tmp_path, seconds=60)
    refused(node, "no public-metrics", **{"public-metrics": "loss"})
    refused(node, "ended 5 s before replies leave", **{"reply-after": 64.0})
    node.operator.check(node.node_config | {"reply-after": 65.0})


def test_a_system_without_a_sandbox_is_refused_unless_the_operator_says_so(tmp_path, monkeypatch):
    node = Node(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(node, "bubblewrap is not installed")
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho no user namespaces >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    refused(node, r"does not give: \| no user namespaces")
    monkeypatch.setattr(system_calls.platform, "machine", lambda: "riscv64")
    refused(node, "riscv64")

    findings = examine(node.node_config, Settings(None, None, "", Training([str(node.data)])))
    assert "riscv64" in findings.problems[0]
    findings = examine(
        node.node_config, Settings(None, None, "", Training([str(node.data)], "none"))
    )
    assert findings.problems == []
    assert "without a sandbox: whoever submits a run" in findings.doubts[-1]


def test_arguments_that_mean_nothing_are_refused(tmp_path):
    with pytest.raises(ValueError, match="sandbox bubblewrap or none, got 'jail'"):
        Sandbox((tmp_path,), kind="jail")
    with pytest.raises(ValueError, match="seconds >= 1, got 0"):
        Limits(seconds=0)


def test_an_operators_choices_reach_the_process_that_answers(tmp_path):
    settings = Settings(None, None, "", Training([str(tmp_path)], "none", 7, 99))
    settings.write(tmp_path / "settings.json")
    operator = Settings.read(tmp_path / "settings.json").operator()
    assert operator.sandbox == Sandbox((tmp_path,), Limits(seconds=7, memory=99), "none")


def test_messages_that_do_not_train_are_for_the_pinned_app_or_refused(tmp_path):
    node = Node(tmp_path)
    fab = fab_of("def train(message, context):\n    return returned(message)\n")
    assert node.ask(fab, "query.report").error.code == 101
    assert node.spent() == {}


def test_state_is_neither_shown_to_training_nor_taken_from_it(tmp_path):
    node, state = Node(tmp_path), RecordDict({"kept": ConfigRecord({"was": "here"})})
    node.ask(
        fab_of(
            "def train(message, context):\n"
            "    context.state['new'] = context.state.pop('kept')\n"
            "    return returned(message)\n"
        ),
        state=state,
    )
    assert dict(state) == {"kept": ConfigRecord({"was": "here"})}


def test_training_is_ended_where_the_machine_has_no_memory_left(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(
        "ldp_flower.supernode.guard.untrusted_process._RESERVE", 2.0
    )  # nobody has so much
    node = Node(tmp_path)
    node.ask(fab_of("def train(message, context):\n    import time; time.sleep(60)\n"))
    assert "memory was nearly used up" in caplog.text
    assert node.spent() == {"the silo": EPSILON}


# ------------------------------------------------------------------------- system calls

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
REFUSED, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS


def verdict(program, architecture, number, argument=0, second=0):
    """Run a filter as the kernel does."""
    data = struct.pack("=IIQQQ", number, architecture, 0, argument, second)
    steps = list(struct.iter_unpack("=HBBI", program))
    at = held = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        else:
            met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += if_true if met else if_false


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_refuses_what_leads_out_and_nothing_else(machine):
    known = system_calls._ARCHITECTURES[machine]
    program = system_calls.program(machine)
    refused = {*known.refused.values(), *system_calls._NEW.values()}
    assert len(refused) == len(known.refused) + len(system_calls._NEW)
    special = {435: UNKNOWN, known.socket: REFUSED}  # a socket of family 0
    for number in range(470):
        expected = special.get(number, REFUSED if number in refused else ALLOWED)
        assert verdict(program, known.audit, number) == expected, number
    for family in range(50):
        expected = ALLOWED if family in (1, 2, 10, 16) else REFUSED
        assert verdict(program, known.audit, known.socket, family) == expected
    for bit in range(32):
        namespaces = (7, 17, 25, 26, 27, 28, 29, 30)  # as in linux/sched.h
        expected = REFUSED if bit in namespaces else ALLOWED
        assert verdict(program, known.audit, known.clone, 1 << bit | 17) == expected, bit
    for order in (*range(20), *range(1020, 1040)):  # as in linux/fcntl.h
        expected = REFUSED if order == 1024 else ALLOWED
        assert verdict(program, known.audit, known.fcntl, second=order) == expected, order
    assert verdict(program, known.audit, 0x40000000 | 1) == REFUSED
    assert verdict(program, 0x40000003, 1) == KILLED  # i386's numbers mean other calls
