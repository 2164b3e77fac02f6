"""The child process that checks a network sent as data, and trains it for one round.

The parent writes a round, which holds no data, and reads one line. The line holds the reason for a
refusal, or the form of the accepted network's targets. After this line, the child writes the
parameters after the round without records, with noise alone. Then the child confines itself. The
parent writes the data, and reads the same number of bytes again.
"""

import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Timer
from typing import Any, BinaryIO, Self

import numpy as np

from ldp_flower.models.graph import NetworkError, Tensor
from ldp_flower.randomness import SystemRandom
from ldp_flower.validation import PlainFields, check_integer

from .denormals import flushed
from .network_round import Arrays, Round
from .records import Data, Form

_LONGEST_LINE = 2000  # largest number of characters of the child's line
# Factor by which any numbers may take longer than zeros: gelu takes twice as long for some numbers,
# other functions less (ldp_flower.models.steady). So records do not decide if the time suffices.
_SLOWEST = 4


# Variables of the environment that the child gets. Others may hold credentials and paths to data.
_ENVIRONMENT = frozenset(
    {"LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH"}
    | {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY", "GOMP_CPU_AFFINITY"}
)


class ChildError(Exception):
    """Error of a child process that gave no answer of the expected form."""


@dataclass(frozen=True)
class ChildLimits(PlainFields):
    """Limits of the training for one message: seconds, and mebibytes of address space.

    The steps before the data are sent have a separate limit of the same number of seconds.
    """

    seconds: int = 600
    memory: int = 8192

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("seconds", self.seconds, 1)
        check_integer("memory", self.memory, 1)


class Child:
    """A process that checks a network and trains it; leaving the ``with`` block ends it.

    Guarantee
    ---------
    1. The process does not learn the paths of the ledger and the data. Its environment holds a
       short list of names, and its working directory is empty. It inherits no open file but its two
       pipes and the standard error, which is the operator's log.
    2. Before it reads the data, it gives up the right to open files and connections. Only an
       account with CAP_SYS_RESOURCE (root) can take this right back. The process can still use the
       contents of its memory and the log.
    3. Its arithmetic treats numbers next to zero as zero, in all threads, if the processor can.
    """

    def __init__(self, limits: ChildLimits) -> None:
        self._limits = limits
        self._folder = tempfile.TemporaryDirectory(prefix="ldp-flower-network-")
        kept = {name: value for name, value in os.environ.items() if name in _ENVIRONMENT}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(limits.memory), str(limits.seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._folder.name,
            env={**kept, "HOME": self._folder.name, "TMPDIR": self._folder.name},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def prepare(self, task: Round) -> tuple[Form, Arrays]:
        """Return the form of a network's inputs, and the parameters after a round without records.

        Raise NetworkError if the network is refused. Raise ChildError if the process takes too much
        time or memory.
        """
        with self._in_time():
            self._send(task)
            line = self._output.readline(_LONGEST_LINE)
            try:
                answer = json.loads(line)
                if "refused" in answer:
                    raise NetworkError(ascii(str(answer["refused"]))[1:-1])
                target = Tensor(str(answer["dtype"]), tuple(int(n) for n in answer["shape"]))
                form = Form(task.network.graph.record, target, answer["classes"])
            except NetworkError:
                raise
            except (ValueError, KeyError, TypeError) as error:
                raise ChildError("The process ended while it checked the network.") from error
            return form, self._received(task)

    def train(self, task: Round, data: Data) -> Arrays:
        """Return the parameters after the prepared round.

        Raise ChildError if the process fails, or takes too much time or memory.
        """
        with self._in_time():
            self._send(data)
            return self._received(task)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        timer = Timer(self._limits.seconds, self._process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _received(self, task: Round) -> Arrays:
        parts = {}
        for name in task.network.graph.trainable:
            like = task.network.arrays[name]
            answer = self._output.read(like.nbytes)
            if len(answer) != like.nbytes:
                raise ChildError("The process ended, for lack of time or memory perhaps.")
            parts[name] = np.frombuffer(answer, like.dtype).reshape(like.shape).copy()
        return parts

    def _send(self, value: Any) -> None:
        try:
            pickle.dump(value, self._input)  # only the child unpickles; its answers are bytes
            self._input.flush()
        except BrokenPipeError as error:
            raise ChildError("The process ended before it had received everything.") from error


def confine() -> None:
    """Give up the right to open files and connections in this process, permanently."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))


def main() -> None:
    """Run the child process: check a network, and train it."""
    memory, seconds = (int(each) for each in sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (memory << 20, memory << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (64 * seconds, 64 * seconds))  # for all its threads
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the output of libraries goes to the log
    with answer, flushed():
        _answer(answer, seconds)


def _answer(answer: BinaryIO, seconds: int) -> None:
    task: Round = pickle.load(sys.stdin.buffer)
    try:
        form = Form.of(task.network, task.limits)
        # The memory of the data, and of the bytes in which they come, is kept free for them.
        each = task.plan.records_per_user or 1
        reserved = [form.nothing(task.count, each) for _ in range(2)]
        # This also imports all modules that the training needs.
        of_blocks = task.seconds(form)
        started = time.monotonic()
        alone = task.without_records(SystemRandom())
        of_noise = time.monotonic() - started
        if _SLOWEST * (of_noise + of_blocks) > seconds:
            raise NetworkError("Expected a round that this node can compute in its time limit.")
        del reserved
        line = {**asdict(form.target), "classes": form.classes}
    except (NetworkError, MemoryError) as error:
        no_room = "Expected a round that this node can compute in its memory limit."
        told = no_room if isinstance(error, MemoryError) else str(error)
        answer.write(json.dumps({"refused": told}).encode() + b"\n")
        return

    def write(arrays: Arrays) -> None:
        for name in task.network.graph.trainable:
            answer.write(np.ascontiguousarray(arrays[name]).tobytes())
        answer.flush()

    answer.write(json.dumps(line).encode() + b"\n")
    write(alone)
    confine()
    data: Data = pickle.load(sys.stdin.buffer)
    write(task.trained(data, SystemRandom()))


if __name__ == "__main__":
    main()
