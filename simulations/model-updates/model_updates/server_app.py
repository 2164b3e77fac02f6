"""The untrusted half: LdpFedAvg, which was FedAvg."""

import json
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from ldp_flower.strategies import LdpFedAvg

from .task import accuracy, make_net, seed_of, test_rows

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, test and keep the model."""
    run = context.run_config
    output = Path(str(run["output-dir"])).absolute()
    output.mkdir(parents=True, exist_ok=True)
    net = make_net()
    strategy = LdpFedAvg(epsilon=float(run["epsilon"]))  # was: FedAvg()
    # What users have answered is kept: if the server stops or nodes are lost, run the app again.
    store = output / "run.db" if seed_of(run) is None else None
    result = strategy.start(
        grid,
        ArrayRecord(net.state_dict()),
        num_nodes=int(run["num-nodes"]),
        seed=seed_of(run),
        store=store,
    )
    net.load_state_dict(result.arrays.to_torch_state_dict())
    torch.save(net.state_dict(), output / "model.pt")
    document = {"users": result.num_users, "reports": result.num_reports, "notes": result.notes}
    if run["evaluate"]:
        document["accuracy"] = accuracy(net, *test_rows())
        print(f"Accuracy on digits that no node has: {document['accuracy']:.3f}")
    (output / "result.json").write_text(json.dumps(document, indent=2))
    if store and not result.ended_early:
        store.unlink()  # the next run asks anew
    print(*result.notes, f"Results in {output}", sep="\n", flush=True)
