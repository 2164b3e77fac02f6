"""Errors of the protocols that collect once against the number of users."""

import itertools

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task
from .problems import PROBLEMS
from .report import draw, table
from .runs import METHODS, Setting, sweep

EPSILONS = (1.0, 2.0, 4.0, 8.0)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand("simulations.papers.collect_once", __doc__, seeds=4)
    command.choose("--problems", PROBLEMS)
    command.choose("--methods", METHODS)
    command.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    command.add_argument("--max-users", type=int, help="leave larger settings out")
    options = command.options(arguments)
    # Seed by seed, so that whatever is done when it is interrupted covers all settings.
    tasks = [
        Task(Setting(problem, epsilon, num_users), method, seed)
        for seed, problem in itertools.product(options.seeds, options.problems)
        for num_users in PROBLEMS[problem].users
        if options.max_users is None or num_users <= options.max_users
        for method, epsilon in itertools.product(options.methods, options.epsilons)
    ]
    carry_out(options, sweep, tasks, table, draw)


if __name__ == "__main__":
    main()
