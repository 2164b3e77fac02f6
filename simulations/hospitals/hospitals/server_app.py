"""The untrusted half: two questions to all hospitals, which share one budget."""

import json
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ldp_flower.strategies import Means, PrivateRegression

from .task import SCHEMA, seed_of

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Ask, print the answers and write them."""
    run = context.run_config
    output = Path(str(run["output-dir"])).absolute()
    output.mkdir(parents=True, exist_ok=True)
    seed, nodes = seed_of(run), int(run["num-nodes"]) or None
    half, noise = float(run["epsilon"]) / 2, str(run["noise"])
    asked = {
        "days-by-ward": Means(SCHEMA, "days", by="ward", epsilon=half, noise=noise),
        "regression": PrivateRegression(SCHEMA, epsilon=half, noise=noise),
    }
    document = {}
    for name, strategy in asked.items():
        # What hospitals have answered is kept: if one is lost, run the app again.
        store = output / f"{name}.db" if seed is None else None
        result = strategy.start(grid, num_nodes=nodes, seed=seed, store=store)
        result.to_html(output / f"{name}.html")
        document[name] = result.to_dict()
        if store and not result.ended_early:
            store.unlink()  # the next run asks anew
        print(f"{result}\n{result.table().to_string(index=False)}\n")
    (output / "result.json").write_text(json.dumps(document, indent=2))
    print(f"Results in {output}", flush=True)
