"""The untrusted half: run a protocol over the nodes, then show how far it is from no privacy."""

import json
import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from .design import COLUMNS
from .protocols import PROTOCOLS

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the protocol over the grid's nodes and write what came out."""
    run = context.run_config
    seed, name = int(run["seed"]), str(run["protocol"])
    output = Path(str(run["output-dir"])).absolute()
    output.mkdir(parents=True, exist_ok=True)
    # What users have answered is kept: if the server stops or nodes are lost, run the app again.
    store = None if run["evaluate"] else output / "run.db"
    started = time.perf_counter()
    result = (
        PROTOCOLS[name]
        .strategy(float(run["epsilon"]))
        .start(
            grid,
            num_nodes=int(run["num-nodes"]) or None,
            seed=seed if run["evaluate"] else None,  # a deployment takes none
            store=store,
        )
    )
    seconds = time.perf_counter() - started
    document = {
        "protocol": name,
        "seconds": seconds,
        "model": dict(zip(COLUMNS, result.coef.tolist(), strict=True)),
        **result.to_dict(),
    }
    if run["evaluate"]:
        from .comparison import compare  # needs the data, which a deployment's server lacks

        document |= compare(
            name,
            result,
            seconds,
            protocols=str(run["sweep-protocols"]).split(),
            epsilons=[float(each) for each in str(run["sweep-epsilons"]).split()],
            num_seeds=int(run["sweep-seeds"]),
            seed=seed,
            num_users=int(run["num-users"]),
            output=output,
        )
    (output / "result.json").write_text(json.dumps(document, indent=2))
    if store and not result.ended_early:
        store.unlink()  # the next run asks anew
    print(f"Results in {output}", flush=True)
