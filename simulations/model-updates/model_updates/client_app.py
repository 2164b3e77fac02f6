"""The private half: an app as any other, but for the mod."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower.clients import LdpUpdateMod

from .task import make_net, node_rows, seed_of
from .task import train as train_net

private = LdpUpdateMod(seed=lambda context: seed_of(context.run_config))
app = ClientApp(mods=[private])  # was: ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on the node's rows, and reply: of this the mod sends one random report."""
    run, net = context.run_config, make_net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    rows, labels = node_rows(context)
    train_net(net, rows, labels, int(run["local-epochs"]), float(run["learning-rate"]))
    reply = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({"num-examples": len(rows)}),
    }
    return Message(RecordDict(reply), reply_to=message)
