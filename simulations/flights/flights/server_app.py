"""The untrusted half: run LDP-IHT over the nodes, then show how far it is from no privacy."""

import json
import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from .design import COLUMNS
from .protocols import ldp_iht

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the protocol over the grid's nodes and write what came out."""
    run = context.run_config
    seed, sparsity = int(run["seed"]), int(run["sparsity"])
    output = Path(str(run["output-dir"])).absolute()
    output.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    result = ldp_iht(float(run["epsilon"]), sparsity).start(
        grid,
        num_nodes=int(run["num-nodes"]) or None,
        seed=seed if run["evaluate"] else None,  # a deployment takes none
    )
    seconds = time.perf_counter() - started
    document = {
        "protocol": "LdpIht",
        "seconds": seconds,
        "model": {COLUMNS[j]: float(result.coef[j]) for j in result.support},
        **result.to_dict(),
    }
    if run["evaluate"]:
        from .comparison import compare  # needs the data, which a deployment's server lacks

        document |= compare(
            result,
            seconds,
            methods=str(run["sweep-methods"]).split(),
            epsilons=[float(each) for each in str(run["sweep-epsilons"]).split()],
            num_seeds=int(run["sweep-seeds"]),
            sparsity=sparsity,
            seed=seed,
            num_users=int(run["num-users"]),
            output=output,
        )
    (output / "result.json").write_text(json.dumps(document, indent=2))
    print(f"Results in {output}", flush=True)
