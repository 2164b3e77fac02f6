"""The command ``ldp-flower demo``: one user's report, the estimate, and the true values."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from .console import FAILED, USAGE, console, fail, option

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..strategies import CountsResult

_TABLE = Path(__file__).with_name("aircraft.csv")
_SOURCE = "US Bureau of Transportation Statistics, flights from New York in 2013 (public domain)"
_REPEATS = 5  # number of example draws of one aircraft's report
_BAR = 32  # characters of the bar of the largest share


def demo(
    epsilon: Annotated[float, option("Privacy parameter of each aircraft.")] = 2.0,
    seed: Annotated[
        int | None, option("Seed for a reproducible run.", default="random", min=0)
    ] = None,
    output: Annotated[Path, option("File of the page.", dir_okay=False)] = Path(
        "ldp-flower-demo.html"
    ),
) -> None:
    """Estimate each airline's share of 4,043 aircraft, from one private report of each aircraft.

    The command prints several example draws of one aircraft's report, and the estimated and the
    true share of each airline. It also writes these results to an HTML page. It takes about ten
    seconds and needs no network.
    """
    from pandas import read_csv

    from ..data.schema import Categories, Schema
    from ..simulation import simulate
    from ..strategies import Counts, TooFewReports

    table = read_csv(_TABLE)
    airlines = table["airline"].value_counts().index.tolist()
    schema = Schema({"airline": Categories(airlines)})
    try:
        strategy = Counts(schema, "airline", epsilon=epsilon)
        result = simulate(strategy, schema.users(table, groups="aircraft"), seed=seed)
    except (ValueError, TooFewReports) as error:
        fail(str(error), USAGE)
    truth = [float(share) for share in table["airline"].value_counts(normalize=True)]
    sends = _reports_of_one(table, airlines, epsilon, seed)
    console.print(Text(f"{len(table):,} aircraft report their airline, once each.", "bold"))
    console.print(Text(f"{sends}\n"))
    _show(result, truth)
    try:
        _write(result, truth, sends, output)
    except OSError as error:
        fail(f"Cannot write {output}: {error.strerror}. Choose another --output.", FAILED)
    console.print(Text(f"\n{_protection(result)}\nData: {_SOURCE}.\nThe same as a page: {output}"))


def _protection(result: "CountsResult") -> str:
    from ..presentation.words import guarantee

    assert result.privacy is not None
    return guarantee(result.privacy.epsilon, result.privacy.delta, "aircraft")


def _reports_of_one(
    table: "DataFrame", airlines: list[str], epsilon: float, seed: int | None
) -> str:
    """Return a text with some reports of the first aircraft, and their probabilities."""
    import numpy as np

    from ..presentation.words import counted
    from ..randomizers import best_frequency_oracle
    from ..randomness import KeyedRandom, SystemRandom, derive

    name, airline = table.iloc[0]
    oracle = best_frequency_oracle(epsilon, len(airlines), len(table))
    coin = np.zeros(1, np.uint64)
    drawn = []
    for each in range(_REPEATS):
        randomness = SystemRandom() if seed is None else KeyedRandom(derive(seed, each))
        report = oracle.randomize([[float(airlines.index(airline))]], randomness, coin)
        held = oracle.support(oracle.estimate(oracle.summarize(report, coin)))
        drawn.append(" + ".join(airlines[i] for i in np.flatnonzero(held > 0.5)))  # 0 or 1 each
    return (
        f"{name} flies for {airline}. Its report of {counted(oracle.report_bytes, 'byte')} holds "
        f"its own airline with probability {float(oracle.own):.2f}, and any other airline with "
        f"probability {float(oracle.other):.2f}. {_REPEATS} draws: {'; '.join(drawn)}."
    )


def _show(result: "CountsResult", truth: list[float]) -> None:
    """Print the estimates with their errors, and the true shares, as numbers and bars."""
    from rich.table import Table

    largest = max(*truth, float(result.shares.max()))
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("airline", "estimated", "true", ""):
        grid.add_column(head, justify="left" if head in ("airline", "") else "right", no_wrap=True)
    rows = zip(result.categories, result.shares, result.users_std_error, truth, strict=True)
    for name, share, error, true in rows:
        bar = "█" * round(_BAR * max(float(share), 0.0) / largest)
        mark = round(_BAR * true / largest)
        cells = bar.ljust(_BAR + 1)
        grid.add_row(
            name,
            f"{100 * share:.1f} ± {100 * error:.1f} %",
            f"{100 * true:.1f} %",
            Text.assemble((cells[:mark], "green"), ("│", "bold"), (cells[mark + 1 :], "green")),
        )
    console.print(grid)
    console.print(Text("bars: estimated; │: true", "dim"))


def _write(result: "CountsResult", truth: list[float], sends: str, path: Path) -> None:
    """Write the HTML page with the demo's result."""
    from ..presentation import charts
    from ..presentation.page import Section, page, table_of

    axes = result.plot()
    axes.plot(truth, range(len(truth)), "|", ms=12, mew=2, color=charts.RED, label="true")
    axes.legend(loc="lower right")
    found = result.table().assign(true=truth)
    sections = [
        Section("Reports of one aircraft", [sends]),
        Section("Shares of airlines", [charts.svg(axes, "Estimated and true shares")]),
        Section("Numbers", [table_of(found)]),
        Section("Guarantee", [_protection(result), f"Data: {_SOURCE}."]),
    ]
    page(f"{result.num_reports:,} aircraft report their airline privately", sections, path)
