"""The untrusted half: one private regression, then how far it is from the truth."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from rich.console import Console
from rich.table import Table

from ldp_flower.strategies import SparseRegression

from .configuration import setting_of
from .methods import METHODS, Estimate, Method, error, f1
from .population import DECLARED_SCALE, Population

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run SparseRegression over the grid's nodes, the other methods in process."""
    run = context.run_config
    setting, seed = setting_of(run), int(run["seed"])
    population = Population(setting, seed)
    output = Path(str(run["output-dir"])).absolute()
    output.mkdir(parents=True, exist_ok=True)
    declared = setting.scale == "declared"
    strategy = SparseRegression(
        setting.dim,
        epsilon=setting.epsilon,
        samples_per_user=setting.samples_per_user,
        target_scale=DECLARED_SCALE if declared else None,
    )
    started = time.perf_counter()
    result = strategy.start(grid, num_nodes=int(run["num-nodes"]) or None, seed=seed)
    estimate = Estimate(result.coef, result.support, declared)
    seconds = time.perf_counter() - started
    ours = METHODS["SparseRegression"]
    rows = [_row("SparseRegression, in Flower", ours, estimate, population, seconds)]
    if run["compare"]:
        for name, method in METHODS.items():
            if method is ours:
                continue
            started = time.perf_counter()
            estimate = method.estimate(population)
            rows.append(_row(name, method, estimate, population, time.perf_counter() - started))
    _show(rows, f"n={setting.num_users}, m={setting.samples_per_user}, d={setting.dim}")
    document = {"setting": asdict(setting), "rows": rows, "seconds": seconds, **result.to_dict()}
    (output / "result.json").write_text(json.dumps(document, indent=2))
    print(f"Results in {output}", flush=True)


def _row(
    name: str, method: Method, estimate: Estimate, population: Population, seconds: float
) -> dict[str, Any]:
    return {
        "method": name + (" (scale declared)" if estimate.scale_declared else ""),
        "guarantee": method.guarantee,
        "epsilon": method.epsilon(population.setting),
        "error": error(estimate.coef, population),
        "f1": f1(estimate.support, population),
        "support": len(estimate.support),
        "seconds": seconds,
    }


def _show(rows: list[dict[str, Any]], title: str) -> None:
    table = Table(title=f"Error ||coef - truth|| at {title}")
    for column in rows[0]:
        table.add_column(column, justify="left" if column in ("method", "guarantee") else "right")
    for row in rows:
        table.add_row(
            row["method"],
            row["guarantee"],
            "-" if row["epsilon"] is None else f"{row['epsilon']:g}",
            f"{row['error']:.3f}",
            f"{row['f1']:.2f}",
            str(row["support"]),
            f"{row['seconds']:.1f}",
        )
    Console(width=110).print(table)
