"""The untrusted half: sends the network, and averages what silos have trained."""

import json
from pathlib import Path

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from ldp_flower.models import Network
from ldp_flower.strategies import RecordDpSgd

from .task import invented, make_net, seed_of

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, evaluate on the server's own images, and write the network."""
    run = context.run_config
    output = Path(str(run["output-dir"])).absolute()
    output.mkdir(parents=True, exist_ok=True)
    images, labels = invented(1000, 0)
    network = Network.export(make_net(), images[0], "cross_entropy")

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        own = network.with_arrays({name: array.numpy() for name, array in arrays.items()})
        return MetricRecord({"accuracy": float((own.run(images).argmax(1) == labels).mean())})

    strategy = RecordDpSgd(
        network,
        epsilon=float(run["epsilon"]),
        delta=float(run["delta"]),
        num_rounds=int(run["num-rounds"]),
        steps=int(run["steps"]),
        unit=str(run["unit"]),
        sampling_rate=float(run["sampling-rate"]),
        learning_rate=float(run["learning-rate"]),
    )
    # If the server stops or silos are lost, run the app again: what is paid is not paid again.
    store = output / "run.db" if seed_of(run) is None else None
    result = strategy.start(
        grid, num_nodes=int(run["num-nodes"]) or None, evaluate_fn=evaluate, store=store
    )
    if store and not result.ended_early:
        store.unlink()  # the next run asks anew
    result.network.save(output / "network.json")
    rounds = {
        str(number): {**metrics, **result.evaluate_metrics_serverapp[number]}
        for number, metrics in result.train_metrics_clientapp.items()
    }
    found = {"epsilon": result.epsilon, "delta": result.delta, "rounds": rounds}
    (output / "result.json").write_text(json.dumps({**found, "notes": result.notes}, indent=2))
    for number, metrics in rounds.items():
        spent, accuracy = metrics["epsilon-spent"], metrics["accuracy"]
        print(f"round {number}: accuracy {accuracy:.3f}, epsilon spent so far {spent:.3g}")
    print(f"Results in {output}", flush=True)
