"""Noise after a restart: the same messages put to processes that have just started.

A real node starts one for every message, so whatever is drawn from a generator that the app
seeds is the same for all of them.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from .claims import Claims
from .compared import Runs, stacked
from .data.sources import Sources
from .findings import Finding
from .loading import AuditedApp, RunConfig
from .node import Node
from .noise.repeats import SELDOM, same_by_chance, varying
from .replies import Seen

_TIMEOUT = 180.0  # seconds


@dataclass(frozen=True)
class Asked:
    """What a process that starts anew needs to know."""

    folder: Path
    sample: Path | None
    run_config: RunConfig
    node_config: dict[str, Any]
    num_nodes: int
    messages: list[Message]


def after_restarts(asked: Asked, node: Node, base: Runs) -> Iterator[Finding]:
    """Yield arrays whose noise varies from run to run, and is the same after each restart."""
    candidates = [
        (number, path)
        for number, path in varying(base)
        if same_by_chance([run[number] for run in base], path) < SELDOM
    ]
    if not candidates:
        return
    replies = _restarted(asked)
    if replies is None:
        return
    told = set()
    for number, path in candidates:
        kind = node.messages[number].metadata.message_type
        one, two = (run[number].numbers.get(path) for run in replies)
        if one is None or two is None or one.shape != two.shape or (kind, path) in told:
            continue
        rows = stacked([run[number] for run in base], path)
        assert rows is not None
        noisy = (rows != rows[0]).any(axis=0)
        if len(noisy) == len(one) and np.array_equal(one[noisy], two[noisy]):
            told.add((kind, path))
            yield Finding(
                "noise is the same after a restart",
                f"{kind}: {path}",
                f"two processes that had just started sent the same {int(noisy.sum()):,} noisy "
                f"numbers, the first of them {one[noisy][0]:.6g}",
            )


def _restarted(asked: Asked) -> list[list[Seen]] | None:
    """Return what two processes that have just started reply; None if one of them failed."""
    with tempfile.TemporaryDirectory() as folder:
        question = Path(folder, "asked")
        question.write_bytes(pickle.dumps(asked))
        outs = [Path(folder, f"replies-{i}") for i in range(2)]
        started = [
            subprocess.Popen(
                [sys.executable, "-m", __name__, str(question), str(out)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for out in outs
        ]
        for process in started:
            try:
                process.wait(_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if not all(out.is_file() for out in outs):
            return None
        return [pickle.loads(out.read_bytes()) for out in outs]


def main(question: str, out: str) -> None:
    """Answer a run's messages once, and leave what a server sees of it in a file."""
    asked: Asked = pickle.loads(Path(question).read_bytes())
    app = AuditedApp(asked.folder, asked.run_config, asked.sample)
    node = Node(app, asked.messages, asked.num_nodes, asked.node_config, Sources(app), Claims())
    Path(out).write_bytes(pickle.dumps(node.first()))


if __name__ == "__main__":
    # Pickled by another process, where this module has its full name.
    from ldp_flower.audit.app import restart

    restart.main(*sys.argv[1:])
