"""One run of a protocol on a problem, and what is kept of it."""

from dataclasses import dataclass
from typing import Any

from ...harness.runs import Task, sweep_of
from .problems import PROBLEMS

METHODS = ("auto", "paper")


@dataclass(frozen=True)
class Setting:
    """A problem, each user's epsilon, and their number."""

    problem: str
    epsilon: float
    num_users: int


def run(task: Task) -> dict[str, Any]:
    """Return what is measured of a run."""
    setting: Setting = task.setting
    error = PROBLEMS[setting.problem].run(
        setting.num_users, task.seed, epsilon=setting.epsilon, method=task.method
    )
    return {"error": error}


sweep = sweep_of(Setting, ["error"], run)
