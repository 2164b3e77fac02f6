"""Run the experiment's grids, then print the table and draw the figures."""

from ..harness.command import StudyCommand, carry_out
from ..harness.runs import Task
from .grids import GRIDS, settings_of
from .report import draw, table
from .runs import METHODS, sweep


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand(
        "simulations.user_level", __doc__, seeds=5, quick="six settings, two seeds"
    )
    command.choose("--grids", [*GRIDS, "table"])
    command.choose("--methods", METHODS)
    command.add_argument("--max-users", type=int, help="leave larger settings out")
    options = command.options(arguments)
    # Seed by seed, so that whatever is done when it is interrupted covers all settings.
    tasks = [
        Task(setting, method, seed)
        for seed in options.seeds
        for setting in settings_of(["quick"] if options.quick else options.grids)
        if options.max_users is None or setting.num_users <= options.max_users
        for method in options.methods
    ]
    carry_out(options, sweep, tasks, table, draw)


if __name__ == "__main__":
    main()
