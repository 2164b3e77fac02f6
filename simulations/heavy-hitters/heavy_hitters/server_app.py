"""The untrusted half: asks everybody for a word, once; shows those that are no chance."""

import json
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ldp_flower.strategies import HeavyHitters

from .task import CANDIDATES, seed_of

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Ask, print the words that were found and write them."""
    run = context.run_config
    output = Path(str(run["output-dir"])).absolute()
    output.mkdir(parents=True, exist_ok=True)
    strategy = HeavyHitters(2**40, epsilon=float(run["epsilon"]))
    nodes = int(run["num-nodes"]) or None
    # What users have answered is kept: if the server stops or nodes are lost, run the app again.
    store = output / "run.db" if seed_of(run) is None else None
    result = strategy.start(grid, num_nodes=nodes, seed=seed_of(run), store=store)
    found = result.named(CANDIDATES)
    document = {"words": found, **result.to_dict()}
    (output / "result.json").write_text(json.dumps(document, indent=2))
    if store and not result.ended_early:
        store.unlink()  # the next run asks anew
    for (word, count), error in zip(found.items(), result.std_error, strict=True):
        print(f"{word:12} {count:8.0f} +- {error:.0f}")
    print(*result.notes, f"Results in {output}", sep="\n", flush=True)
