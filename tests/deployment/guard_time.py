"""How long a message takes a guarded node, and a plain one whose app has the mod: a script."""

import json
import sys
import tempfile
from pathlib import Path

import flwr
import numpy as np
from hostile_apps import Attack
from test_hostile import Federation, Operator

MESSAGES = 4
WITH_MOD = """
from ldp_flower.clients import LdpUpdateMod

app = ClientApp(mods=[LdpUpdateMod()])
"""


def seconds(federation, operator, client):
    """Return how long each message of a run took, from its being sent to its reply's arrival."""
    received, sinks = federation.attacked(Attack(client, ("train",) * MESSAGES), operator)
    for ((_, error, records),) in received:
        assert error is None and sorted(records) == ["arrays", "config"], error
    federation.others.append(received[0][0][0]["_src_node_id"])
    return json.loads(sinks.output.with_suffix(".pickle.seconds").read_text())


def main(train):
    """Print the medians for an app whose training is this."""
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(Path(folder))
        try:
            federation.start_superlink()
            times = {}
            for name, head in (("guarded", ""), ("plain", WITH_MOD)):
                operator = Operator(federation, name, name == "guarded")
                times[name] = seconds(federation, operator, f"{head}\n{train}")
                federation.kill(name)
            medians = {name: float(np.median(each)) for name, each in times.items()}
            print(flwr.__version__, medians, medians["guarded"] / medians["plain"])
        finally:
            federation.stop()


if __name__ == "__main__":
    main(
        "import torch\napp.train()(trained)\n" if "torch" in sys.argv else "app.train()(trained)\n"
    )
