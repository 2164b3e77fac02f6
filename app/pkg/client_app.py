
import json, os, sys
from pathlib import Path
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def returned(message, step=1, **more):
    model = message.content["arrays"]
    moved = {
        name: Array(np.asarray(array.numpy() + (step if array.dtype[0] == "f" else 0), array.dtype))
        for name, array in model.items()
    }
    return Message(RecordDict({"arrays": ArrayRecord(moved | more)}), reply_to=message)


@app.train()

def train(message, context):
    import ctypes, flwr, socket
    ATTEMPTS = json.loads(context.node_config["at"])["code"]

    DATA = b"patient-4711"
    AT = json.loads(context.node_config["at"])

    def unix(name):
        with socket.socket(socket.AF_UNIX) as opened:
            opened.connect(name)
            opened.sendall(DATA)

    def all_of(name):
        found = ""
        for path in Path("/proc").glob(f"[0-9]*/{name}"):
            try:
                found += path.read_text(errors="replace")
            except OSError:
                pass
        return found

    def call(name, *arguments):
        if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) < 0:
            raise OSError(ctypes.get_errno())

    scope = {**globals(), **locals()}
    exec(ATTEMPTS, scope)
    for name in AT["attempts"]:
        try:
            scope[name]()
            print("did", name)
        except Exception as error:
            print("could not", name, repr(error))
    return returned(message)
