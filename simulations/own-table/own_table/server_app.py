"""The untrusted half: asks for the regression, and shows it."""

import json
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ldp_flower.strategies import PrivateRegression

from .task import SCHEMA, seed_of

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Ask everybody once, print the table and write it."""
    run = context.run_config
    output = Path(str(run["output-dir"])).absolute()
    output.mkdir(parents=True, exist_ok=True)
    strategy = PrivateRegression(SCHEMA, epsilon=float(run["epsilon"]))
    nodes = int(run["num-nodes"]) or None
    # What users have answered is kept: if the server stops or nodes are lost, run the app again.
    store = output / "run.db" if seed_of(run) is None else None
    result = strategy.start(grid, num_nodes=nodes, seed=seed_of(run), store=store)
    result.to_html(output / "regression.html")
    (output / "result.json").write_text(json.dumps(result.to_dict(), indent=2))
    if store and not result.ended_early:
        store.unlink()  # the next run asks anew
    print(f"{result}\n{result.table().to_string(index=False)}")
    print(f"Results in {output}", flush=True)
