"""Filter for the log of a run, which also finds the reason of a failure."""

import re
from pathlib import Path

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from .console import console


class Screen:
    """Display of a run's log; on a terminal, it also shows the elapsed time.

    Flower's own announcements, colours and padding are left out. Tracebacks are not shown, since
    each appears several times and runs through all of Flower and Ray; they remain in the log file.
    The exceptions of the app are kept for the end: ``reasons`` lists the different exceptions that
    left the app's own code, with their places, in order. ``refusal`` is the error that Flower's
    command line reports about the app.
    """

    _COLOUR = re.compile(r"\x1b\[[0-9;]*m")
    _LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) : {2,6}")
    _PADDING = 12  # number of columns before Flower's messages
    _ANNOUNCEMENTS = (
        "Using SuperLink:",
        "Successfully started run",
        "Starting logstream",
        "Starting Flower Simulation",
        "Since flwr 1.32",
        "Federation `",
        "To change federation size",
        "flwr federation simulation-config",
        "Successfully installed",
    )
    # Flower's explanations of an exception of the app, which say less than the exception.
    _EXIT, _EXIT_ENDS = ("Exit Code: 700", "Exit Code: 607"), "For more information, visit: <"
    _HEADS = ("Simulation raised an exception", "An exception was raised when processing")
    _ACTOR = re.compile(r"\(ClientAppActor pid=\d+[^)]*\) ?")
    _TRACE = re.compile(r"Traceback \(most recent call last\):|.*ray::\w+\.run\(\)")
    _FRAME = re.compile(r' +File "(.*)", line (\d+), in ')
    _RAISED = re.compile(r"([A-Za-z_][\w.]*)(:(?: .*)?)?$")
    _BETWEEN = (
        "The above exception was the direct cause",
        "During handling of the above exception",
        "Exception ClientAppException occurred.",
    )

    def __init__(self, app: Path) -> None:
        self.reasons: list[str] = []
        self.refusal = ""
        self._app = app
        self._started = self._exiting = self._refusing = False
        self._tracing = self._raised = False
        self._frame = ""
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("Starting Flower", total=None)

    def __enter__(self) -> "Screen":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, line: str) -> None:
        """Process a line of the log, and print it unless it is uninformative."""
        line = self._COLOUR.sub("", line)
        level = self._LEVEL.match(line)
        if level:
            line = line[self._PADDING :]
            self._exiting = line.startswith(self._EXIT)
        if self._exiting:
            self._exiting = not line.startswith(self._EXIT_ENDS)
            return
        if self._is_trace(self._ACTOR.sub("", line), level is not None) or self._is_refusal(line):
            return
        if level and line.startswith(self._HEADS):
            return
        if not self._started:
            if line.strip().startswith(self._ANNOUNCEMENTS):
                return
            self._started = True
            self._progress.update(self._task, description="Running")
        if level and level[1] not in ("DEBUG", "INFO"):
            line = f"{level[1].capitalize()}: {line}"
        console.print(Text(line, "yellow" if level and level[1] == "WARNING" else ""))

    def _is_trace(self, line: str, logged: bool) -> bool:
        """Return True if a line is part of a traceback; keep the app's exception as a reason."""
        if self._TRACE.match(line):
            self._tracing, self._raised, self._frame = True, False, ""
        elif logged:
            self._tracing = False
        elif self._tracing and (frame := self._FRAME.match(line)):
            if Path(frame[1]).is_relative_to(self._app):
                self._frame = f"{Path(frame[1]).relative_to(self._app)}, line {frame[2]}"
        elif self._tracing and not self._raised and (raised := self._RAISED.match(line)):
            self._raised = True
            self._keep(raised[1], raised[2] or "")
        elif self._tracing:
            code = line.startswith(" ") and not self._raised
            self._tracing = code or not line.strip() or line.startswith(self._BETWEEN)
        return self._tracing

    def _keep(self, kind: str, message: str) -> None:
        reason = f"{kind.rpartition('.')[2]}{message} ({self._frame})"
        if self._frame and reason not in self.reasons:
            self.reasons.append(reason)

    def _is_refusal(self, line: str) -> bool:
        """Return True if a line is in the box with an error of Flower's command line."""
        if line.startswith("╭─ Error"):
            self._refusing = True
        elif self._refusing and line.startswith("│"):
            self.refusal = f"{self.refusal} {line.strip('│ ')}".strip()
        elif self._refusing:
            self._refusing = False
            return line.startswith("╰")
        return self._refusing
