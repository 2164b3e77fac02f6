"""Apps that tell no more of their data than they say."""

from faulty import CLAIM, SOUND
from strangers import LEGACY_CLIENT, LEGACY_SERVER, App

ONLY_ZERO = "update = [0 * u for u in (w, b)]"

#: Clients of this library, with users made from the app's rows.
OURS = """
from ldp_flower import Users
from ldp_flower.clients import LdpClientApp

from {name}.task import load_data


def load_users(context):
    x, y = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    return Users.from_rows(x, y, groups=[f"{{i % 12}}" for i in range(len(x))])


app = LdpClientApp(load_users)
""".replace("{{", "{").replace("}}", "}")

OUR_SERVER = """
from flwr.serverapp import ServerApp

from ldp_flower import strategies

app = ServerApp()


@app.main()
def main(grid, context):
    strategies.STRATEGY.start(grid, timeout=60.0)
"""

OUR_TRAINING = """
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from ldp_flower import Users
from ldp_flower.clients import LdpUpdateMod, LdpUserUpdateMod, user_of

from {name}.task import fit, load_data


def data_of(context):
    return load_data(context.node_config["partition-id"], context.node_config["num-partitions"])


def load_users(context):
    x, y = data_of(context)
    return Users.from_rows(x, y, groups=[f"{i % 12}" for i in range(len(x))])


app = ClientApp(mods=[MOD])


@app.train()
def train(message, context):
    w, b = message.content["arrays"].to_numpy_ndarrays()
    x, y = DATA
    update = fit(w, b, x, y)
    arrays = ArrayRecord([w + update[0], b + update[1]])
    metrics = MetricRecord({"num-examples": len(x), "loss": float(abs(x).sum())})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
"""

OUR_AVERAGING = """
import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp

from ldp_flower.strategies import LdpFedAvg

app = ServerApp()


@app.main()
def main(grid, context):
    LdpFedAvg(epsilon=EPSILON).start(grid, ArrayRecord([np.zeros(5), np.zeros(1)]))
"""


def ours(strategy, nodes=4):
    return App(
        client=OURS,
        server=OUR_SERVER.replace("STRATEGY", strategy),
        nodes=nodes,
        loader="task:load_data",
    )


def our_training(mod, data, epsilon, nodes):
    return App(
        client=OUR_TRAINING.replace("[MOD]", f"[{mod}]").replace("DATA", data),
        server=OUR_AVERAGING.replace("EPSILON", str(epsilon)),
        loader="task:load_data",
        nodes=nodes,
    )


def calibrated(epsilon, rounds, delta=1e-5, clip=1.0, **more):
    """Return an app under LocalDpMod: twice the norm, and a whole run's budget divided."""
    return App(
        top="from flwr.clientapp.mod import LocalDpMod",
        mods=f"LocalDpMod({clip}, {2 * clip}, {epsilon / rounds}, {delta / rounds})",
        rounds=rounds,
        claim=epsilon,
        delta=delta,
        **more,
    )


HONEST = {
    # ---------------------------------------------------------------------------------- ours
    "our_update_mod": our_training("LdpUpdateMod()", "data_of(context)", 4.0, 40),
    "our_update_mod_of_less": our_training("LdpUpdateMod()", "data_of(context)", 2.0, 80),
    "our_user_update_mod": our_training(
        "LdpUserUpdateMod(load_users)",
        "(user_of(message).features, user_of(message).targets)",
        4.0,
        4,
    ),
    "our_user_level_mean": ours("UserLevelMean(5, epsilon=2.0, bound=3.0)"),
    "our_ldp_iht": ours("LdpIht(5, epsilon=4.0, sparsity=2)", nodes=12),
    # ------------------------------------------------------------------- Flower's, calibrated
    "localdp_1_round": calibrated(0.9, 1),
    "localdp_4_rounds": calibrated(2.0, 4, delta=4e-5),
    "localdp_10_rounds_clip_a_tenth": calibrated(5.0, 10, delta=1e-4, clip=0.1),
    "localdp_and_an_empty_evaluation": calibrated(0.9, 3, evaluate="pass"),
    "localdp_of_a_sample": calibrated(1.0, 2, sample=True),
    # --------------------------------------------------------------------------- noise alone
    "the_time": App(
        train=f'import time\n{SOUND}\nmetrics["sent-at"] = time.time()',
        **CLAIM,
    ),
    "noise_alone": App(train=f"{ONLY_ZERO}\nupdate = gaussian(update, 1.0)"),
    # ------------------------------------------------------------------------ noise by hand
    "gaussian": App(train=SOUND, **CLAIM),
    "gaussian_1_round": App(train=SOUND, rounds=1, claim=1.0, delta=1e-5),
    "gaussian_of_four_bytes": App(
        train=SOUND, reply="arrays = {k: a.astype(np.float32) for k, a in arrays.items()}", **CLAIM
    ),
    "gaussian_of_a_sample": App(train=SOUND, sample=True, **CLAIM),
    "gaussian_of_the_system": App(
        top="import random\nRNG = random.SystemRandom()",
        train="""
sigma = sigma_of(1.0, 1.0, 1e-5)
draws = [np.array([RNG.gauss(0.0, sigma) for _ in u]) for u in update]
update = [u + d for u, d in zip(clipped(update, 1.0), draws, strict=True)]
""",
        **CLAIM,
    ),
    "gaussian_and_public_facts": App(
        train=f'{SOUND}\nmetrics["round"] = server_round',
        content='content["about"] = ConfigRecord({"version": "1.0", "layers": ["weight", "bias"]})',
        evaluate='metrics["loss"] = 0.0',
        own_server=True,
        **CLAIM,
    ),
    "gaussian_of_few_coordinates": App(
        train="""
keep = np.random.default_rng().permutation(6)[:3]
flat = np.concatenate(gaussian(clipped(update, 1.0), sigma_of(1.0, 1.0, 1e-5)))
flat[keep] = 0.0
update = [flat[:5], flat[5:]]
""",
        **CLAIM,
    ),
    "laplace": App(
        train="""
scale = 2 * 0.5 * 6 / 1.0
draw = np.random.default_rng().laplace
finite = clipped(update, 1e9)
update = [np.clip(u, -0.5, 0.5) + draw(scale=scale, size=u.shape) for u in finite]
""",
        claim=3.0,
    ),
    "randomised_response": App(
        query="""
truth = int((y == 1).mean() > 0.4)
lie = np.random.default_rng().random() >= np.exp(1) / (1 + np.exp(1))
answer["bit"] = truth ^ int(lie)
""",
        train=ONLY_ZERO,
        rounds=1,
        claim=1.0,
    ),
    "randomised_response_of_much_epsilon": App(
        query="""
truth = int((y == 1).mean() > 0.4)
lie = np.random.default_rng().random() >= np.exp(5) / (1 + np.exp(5))
answer["bit"] = truth ^ int(lie)
""",
        train=ONLY_ZERO,
        rounds=1,
        claim=5.0,
    ),
    "randomised_response_of_a_class": App(
        query="""
rng = np.random.default_rng()
most = int(np.bincount(y, minlength=3).argmax())
truth = rng.random() < np.expm1(1) / (np.exp(1) + 2)
answer["class"] = most if truth else int(rng.integers(3))
""",
        train=ONLY_ZERO,
        rounds=1,
        claim=1.0,
    ),
    "randomised_signs": App(
        train="""
keep = np.exp(0.5) / (1 + np.exp(0.5))
rng = np.random.default_rng()
update = [np.where(u > 0, 1, -1) * np.where(rng.random(u.shape) < keep, 1, -1) for u in update]
""",
        claim=9.0,  # six signs of 0.5 each, in three rounds
    ),
    "histogram_of_records": App(
        query="""
counts = np.bincount(np.clip(y, 0, 2), minlength=3)
answer["counts"] = (counts + np.random.default_rng().laplace(scale=2.0, size=3)).tolist()
""",
        train=ONLY_ZERO,
        rounds=1,
        claim=1.0,
        unit="record",
    ),
    # ------------------------------------------------------------- as much as is claimed, no more
    "gaussian_of_the_exact_size": App(
        # Two clipped updates are 2 apart; 3.7304 is the analytic noise of epsilon 1.
        train="update = gaussian(clipped(update, 1.0), 2 * 3.7304)",
        rounds=1,
        claim=1.0,
        delta=1e-5,
    ),
    "gaussian_of_half_precision": App(
        train=SOUND,
        reply="arrays = {k: np.float16(np.clip(a, -6e4, 6e4)) for k, a in arrays.items()}",
        **CLAIM,
    ),
    "gaussian_in_a_text": App(
        train=SOUND,
        content="""
near = float(np.clip(np.nan_to_num(x).mean(), -1, 1)) + 20 * np.random.default_rng().normal()
content["note"] = ConfigRecord({"log": f"mean about {near:.3f} in round {server_round}"})
""",
        own_server=True,
        **{**CLAIM, "claim": 4.0, "delta": 6e-5},
    ),
    "direction_of_fixed_length": App(
        # A random unit vector, turned to the update's side with probability 0.731: epsilon 1.
        train="""
rng = np.random.default_rng()
made = rng.normal(size=6)
made /= np.linalg.norm(made)
side = np.sign(made @ np.nan_to_num(np.concatenate(update)))
made *= (side or 1.0) * (1 if rng.random() < np.e / (1 + np.e) else -1)
update = [made[:5], made[5:]]
""",
        rounds=1,
        claim=1.0,
        delta=1e-6,
    ),
    "laplace_in_other_coordinates": App(
        # Clipped to l1 norm 1, noise for a distance of 2, and turned: it looks more normal.
        train="""
flat = np.nan_to_num(np.concatenate(update))
flat = flat / max(1.0, np.abs(flat).sum())
flat = flat + np.random.default_rng().laplace(scale=2.0, size=6)
turn = np.linalg.qr(np.random.default_rng(5).normal(size=(6, 6)))[0]
update = [(turn @ flat)[:5], (turn @ flat)[5:]]
""",
        rounds=1,
        claim=1.0,
        delta=1e-6,
    ),
    "geometric_counts": App(
        query="""
rng = np.random.default_rng()
noise = rng.geometric(1 - np.exp(-0.5), size=3) - rng.geometric(1 - np.exp(-0.5), size=3)
answer["counts"] = (np.bincount(np.clip(y, 0, 2), minlength=3) + noise).tolist()
""",
        train=ONLY_ZERO,
        rounds=1,
        claim=1.0,
        unit="record",
    ),
    "legacy_client_of_enough_noise": App(
        client=LEGACY_CLIENT.replace("UPDATE", "gaussian(clipped(update, 1.0), 9.7)").replace(
            "len(self.x)", "1"
        ),
        server=LEGACY_SERVER,
        **CLAIM,
    ),
    "the_time_in_seconds": App(
        top="from time import time",
        train=f'{SOUND}\nmetrics["sent-at"] = int(time())',
        **CLAIM,
    ),
    "the_time_in_a_text": App(
        top="from datetime import datetime",
        train=SOUND,
        content='content["note"] = ConfigRecord({"sent-at": datetime.now().isoformat()})',
        own_server=True,
        **CLAIM,
    ),
    "how_long_it_took": App(
        top="from time import perf_counter",
        train=f'began = perf_counter()\n{SOUND}\nmetrics["seconds"] = perf_counter() - began',
        **CLAIM,
    ),
    # -------------------------------------------------------------------- nothing of the data
    "constants": App(train=ONLY_ZERO),
    "constants_everywhere": App(
        train=ONLY_ZERO, evaluate='metrics["loss"] = 0.5', query='answer["ready"] = 1'
    ),
    "public_facts": App(
        train=f'{ONLY_ZERO}\nmetrics["partition"] = context.node_config["partition-id"]\n'
        'metrics["round"] = server_round',
    ),
}
