"""The untrusted half: three questions to a fleet, one report of each aircraft to each."""

import json
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from .questions import delays, describe, destinations, weekly_delays

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Ask, print the answers and write them."""
    run = context.run_config
    output = Path(str(run["output-dir"])).absolute()
    output.mkdir(parents=True, exist_ok=True)
    epsilon, nodes = float(run["epsilon"]), int(run["num-nodes"]) or None
    seed = int(run["seed"]) if run["evaluate"] else None  # a deployment takes none
    if week := int(run.get("week", 0)):
        series = weekly_delays(epsilon, output / "weekly.db")
        levels = series.start(grid, num_nodes=nodes, seed=seed, collection=week)
        levels.to_html(output / "weekly.html")
        (output / "result.json").write_text(json.dumps({"weekly": levels.to_dict()}, indent=2))
        print(f"{levels}\nLevels in {output}", flush=True)
        return
    asked = {"describe": describe, "delays": delays, "destinations": destinations}
    # What users have answered is kept: if the server stops or nodes are lost, run the app again.
    stores = {name: None if run["evaluate"] else output / f"{name}.db" for name in asked}
    told = {
        name: question(epsilon).start(grid, num_nodes=nodes, seed=seed, store=stores[name])
        for name, question in asked.items()
    }
    table, late, flown = told.values()
    for name, result in told.items():
        result.to_html(output / f"{name}.html")
    document = {name: result.to_dict() for name, result in told.items()}
    (output / "result.json").write_text(json.dumps(document, indent=2))
    for name, store in stores.items():
        if store and not told[name].ended_early:
            store.unlink()  # the next run asks anew
    print(table.table().to_string(index=False, na_rep="", float_format="{:.4g}".format))
    print(f"{late}\n{flown}")
    if run["evaluate"]:
        from .figure import draw  # needs the data, which a deployment's server lacks

        draw(flown, epsilon, int(run["seed"]), int(run["num-users"]), output)
    print(f"Results in {output}", flush=True)
