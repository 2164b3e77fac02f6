"""A clock that is wrong, and jumps while processes go by it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("clock.c")
DAY = 86400


class Clock:
    """A clock for processes with this environment, SQLite in them included.

    It shifts dates only; waiting goes on as before, as it does when a real clock is set.
    """

    def __init__(self, folder):
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("a wrong clock needs a C compiler")
        library = folder / "clock.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        self._offset = folder / "offset"
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(self._offset)}
        self.set(0)

    def set(self, days):
        """Let the clock be wrong by so many days from now on."""
        written = self._offset.with_suffix(".new")
        written.write_text(f"{days * DAY}")
        written.replace(self._offset)

    def run(self, *command):
        """Run a command by this clock and return what it prints."""
        environment = os.environ | self.environment
        return subprocess.check_output(command, env=environment, text=True)
