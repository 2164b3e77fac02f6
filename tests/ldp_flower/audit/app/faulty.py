"""Apps with a fault: each tells more of its data than it says."""

from strangers import App

CLAIM = {"claim": 3.0, "delta": 3e-5}
#: Of three rounds: clipped, with the noise of epsilon 1 and delta 1e-5 each.
SOUND = "update = gaussian(clipped(update, 1.0), sigma_of(1.0, 1.0, 1e-5))"


def beside(reply="", train="", content="", **more):
    """Return an app whose update is sound, and which tells something else."""
    return App(train=f"{SOUND}\n{train}", reply=reply, content=content, **{**CLAIM, **more})


def with_mod(clip, sensitivity, epsilon, rounds, delta=1e-5):
    return App(
        top="from flwr.clientapp.mod import LocalDpMod",
        mods=f"LocalDpMod({clip}, {sensitivity}, {epsilon}, {delta})",
        rounds=rounds,
    )


def noise_from(rng, **more):
    """Return an app whose noise is drawn by a generator that somebody can know."""
    return App(
        train=f"update = gaussian(clipped(update, 1.0), sigma_of(1.0, 1.0, 1e-5), {rng})",
        **{**CLAIM, **more},
    )


FAULTY = {
    # ------------------------------------------------------- noise that is not what it says
    "localdp_20_rounds": with_mod(1.0, 2.0, 10.0, 20),
    "localdp_tiny_sensitivity": with_mod(1.0, 1e-4, 10.0, 3),
    "localdp_sensitivity_is_clip": with_mod(1.0, 1.0, 1.0, 1),
    "localdp_with_metrics": App(
        train='metrics["loss"] = loss(w, b, x, y)',
        top="from flwr.clientapp.mod import LocalDpMod",
        mods="LocalDpMod(1.0, 2.0, 0.3, 1e-5)",
        rounds=2,
        claim=0.6,
        delta=2e-5,
    ),
    "too_little_noise": App(
        train="update = gaussian(clipped(update, 1.0), sigma_of(1.0, 1.0, 1e-5) / 50)", **CLAIM
    ),
    "noise_before_clipping": App(train="update = clipped(gaussian(update, 0.1), 1.0)", **CLAIM),
    "not_clipped": App(train="update = gaussian(update, sigma_of(0.01, 1.0, 1e-5))", **CLAIM),
    "noise_on_some_layers": App(
        train="update = [gaussian(clipped(update, 1.0), sigma_of(1.0, 1.0, 1e-5))[0], update[1]]",
        **CLAIM,
    ),
    "one_draw_for_all_coordinates": App(
        train="draw = np.random.default_rng().normal() * sigma_of(1.0, 1.0, 1e-5)\n"
        "update = [u + draw for u in clipped(update, 1.0)]",
        **CLAIM,
    ),
    "gradient_signs": App(train="update = [np.sign(u) for u in update]", **CLAIM),
    "rounded_update": App(train="update = [np.round(u, 1) for u in update]", **CLAIM),
    "laplace_of_what_is_not_clipped": App(
        train="update = [u + np.random.default_rng().laplace(size=u.shape) / 100 for u in update]",
        **CLAIM,
    ),
    "central_clipping_only": App(
        top="from flwr.clientapp.mod import fixedclipping_mod",
        mods="fixedclipping_mod",
        wrapped="DifferentialPrivacyClientSideFixedClipping(strategy, 1.0, 1.0, 4)",
        imported="DifferentialPrivacyClientSideFixedClipping",
    ),
    # ------------------------------------------------------------------- noise that is known
    "noise_of_every_round_the_same": noise_from("np.random.default_rng(context.node_id)"),
    "noise_of_all_nodes_the_same": noise_from("np.random.default_rng(server_round)"),
    "noise_again_after_a_restart": noise_from("RNG", top="RNG = np.random.default_rng(42)"),
    "noise_of_numpys_seed": App(
        top="np.random.seed(3)",
        train="update = [u + sigma_of(1.0, 1.0, 1e-5) * np.random.normal(size=u.shape) "
        "for u in clipped(update, 1.0)]",
        **CLAIM,
    ),
    "noise_seeded_by_the_message": noise_from(
        'np.random.default_rng(int(message.content["config"]["seed"]))', own_server=True
    ),
    "noise_seeded_by_the_partition": noise_from(
        'np.random.default_rng(1000 * int(context.node_config["partition-id"]) + server_round)'
    ),
    "noise_kept_in_the_state": App(
        train="""
if "noise" not in context.state:
    draws = gaussian([0 * u for u in update], sigma_of(1.0, 1.0, 1e-5))
    context.state["noise"] = ArrayRecord(draws)
draws = context.state["noise"].to_numpy_ndarrays()
update = [u + d for u, d in zip(clipped(update, 1.0), draws, strict=True)]
""",
        **CLAIM,
    ),
    "noise_taken_back": App(
        train="""
update = clipped(update, 1.0)
if server_round % 2:
    draws = gaussian([0 * u for u in update], sigma_of(1.0, 1.0, 1e-5))
    context.state["noise"] = ArrayRecord(draws)
else:
    draws = [-d for d in context.state["noise"].to_numpy_ndarrays()]
update = [u + d for u, d in zip(update, draws, strict=True)]
""",
        **CLAIM,
    ),
    # ------------------------------------------------------------------------- plain averages
    "fedavg": App(
        train='metrics = {"num-examples": len(x), "train_loss": loss(w, b, x, y)}',
        evaluate='metrics = {"num-examples": len(x), "eval_loss": loss(w, b, x, y)}',
    ),
    "fedavg_without_metrics": App(),
    "fedavg_of_a_sample": App(sample=True),
    # --------------------------------------------------------------------- beside the update
    "num_examples": beside(train='metrics["num-examples"] = len(x)'),
    "train_loss": beside(train='metrics["loss"] = loss(w, b, x, y)'),
    "accuracy": App(
        train=SOUND,
        evaluate='metrics["accuracy"] = float(np.mean((x @ w + b > 0) == as_binary(y)))',
        **CLAIM,
    ),
    "query": beside(query='answer["histogram"] = np.bincount(y, minlength=3).tolist()'),
    "text_of_an_exception": beside(
        train='if np.abs(x).max() > 3.2:\n    raise ValueError(f"row {np.abs(x).max(axis=1).argmax()}")'
    ),
    "exception_with_the_mean": beside(
        train='if server_round == 2:\n    raise ValueError(f"loss is {loss(w, b, x, y)}")'
    ),
    "no_reply_without_a_class": beside(
        train='if (y == 1).mean() > 0.5:\n    raise ValueError("unbalanced")'
    ),
    "order_of_keys": beside(
        reply="if (y == 1).mean() < 0.4:\n    arrays = dict(reversed(arrays.items()))",
        own_server=True,
    ),
    "names_of_arrays": beside(
        reply='arrays[f"scaler_{int(1000 * x.mean())}"] = np.zeros(1)', own_server=True
    ),
    "latest_record": beside(train='metrics["timestamp"] = 1.7e9 + float(x[:, 4].max())'),
    "shape": beside(reply="arrays['seen'] = np.zeros(int((y == 1).sum()))", own_server=True),
    "dtype": beside(
        reply="kind = np.float32 if x.mean() > 0 else np.float64\n"
        "arrays = {k: a.astype(kind) for k, a in arrays.items()}",
        own_server=True,
    ),
    "presence_of_a_metric": beside(
        train='if (y == 2).any():\n    metrics["has-third-class"] = 1', own_server=True
    ),
    "a_record_more": beside(
        content='if x.mean() > 0:\n    content["note"] = ConfigRecord({"done": True})',
        own_server=True,
    ),
    "text_of_a_note": beside(
        content='content["note"] = ConfigRecord({"log": f"largest {x.max():.3f}"})',
        own_server=True,
    ),
    "last_bits": beside(
        reply="""
weight = arrays["weight"].astype(np.float64)
bits = weight.view(np.uint64) & ~np.uint64(0xFFFF)
code = np.uint64(int(1000 * loss(w, b, x, y)) & 0xFFFF)
arrays["weight"] = (bits | code).view(np.float64)
"""
    ),
    "payload_of_a_nan": beside(
        reply="""
code = np.uint64(0x7FF8000000000000 | int(1000 * np.abs(x).sum()) & 0xFFFFFF)
arrays["pad"] = np.array([code]).view(np.float64)
""",
        own_server=True,
    ),
    "round_3_only": beside(
        reply="if server_round == 3:\n    arrays['bias'] = b + fit(w, b, x, y)[1]"
    ),
    "one_label_only": beside(train='metrics["aux"] = float(np.round(x[y == 2].sum(), 2))'),
    "state_of_the_round_before": beside(
        train="""
if server_round == 1:
    context.state["mean"] = MetricRecord({"mean": float(x.mean())})
else:
    metrics["drift"] = context.state["mean"]["mean"]
"""
    ),
    "norm_of_an_adaptive_clip": App(
        train="""
norm = length(update)
update = gaussian(clipped(update, norm), sigma_of(norm, 1.0, 1e-5))
metrics["clip-norm"] = norm
""",
        **CLAIM,
    ),
    "adaptive_clip": App(
        train="norm = length(update)\nupdate = gaussian(clipped(update, norm), norm)", **CLAIM
    ),
    "time_to_live": App(
        train=SOUND,
        content="return Message(content, reply_to=message, ttl=100.0 + float(y.sum()))",
        **CLAIM,
    ),
    # ------------------------------------------------------------------------- other mechanisms
    "randomised_response_too_true": App(
        query="""
truth = int((y == 1).mean() > 0.4)
lie = np.random.default_rng().random() < 0.02
answer["bit"] = truth ^ int(lie)
""",
        train="update = [0 * u for u in update]",
        rounds=1,
        claim=1.0,
    ),
    "histogram_of_little_noise": App(
        query="""
counts = np.bincount(y, minlength=3) + np.random.default_rng().laplace(scale=0.2, size=3)
answer["counts"] = counts.tolist()
""",
        train="update = [0 * u for u in update]",
        rounds=1,
        claim=1.0,
        unit="record",
    ),
}
