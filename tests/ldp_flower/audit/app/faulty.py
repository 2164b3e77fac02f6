"""Apps with a fault: each tells more of its data than it says."""

from strangers import LEGACY_CLIENT, LEGACY_SERVER, NAMED_CLIENT, NAMED_SERVER, App

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


#: Of claims of 1 in one round, so that little is enough.
ONE = {"rounds": 1, "claim": 1.0, "delta": 1e-5}
NOISE = "sigma_of(1.0, 1.0, 1e-5)"

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
        train="update = gaussian(clipped(update, 1.0), sigma_of(1.0, 1.0, 1e-5) / 50)", **ONE
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
        train="far = np.abs(x).max(axis=1)\n"
        'if far.max() > 3.2:\n    raise ValueError(f"row {far.argmax()}")'
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
    # --------------------------------------------------- noise of the right kind, and too little
    "noise_of_one_clip_not_two": App(
        train=f"update = gaussian(clipped(update, 1.0), {NOISE} / 2.5)", **ONE
    ),
    "laplace_for_one_coordinate_not_six": App(
        train="draw = np.random.default_rng().laplace\n"
        "update = [np.clip(u, -0.5, 0.5) + draw(scale=1.0, size=u.shape) for u in update]",
        **{**ONE, "delta": None},
    ),
    "uniform_noise": App(
        train="draw = np.random.default_rng().uniform\n"
        "update = [u + draw(-2.0, 2.0, size=u.shape) for u in clipped(update, 1.0)]",
        **CLAIM,
    ),
    "noise_in_whole_numbers": App(
        train="draw = np.random.default_rng().normal\n"
        f"update = [u + np.round({NOISE} * draw(size=u.shape)) for u in clipped(update, 1.0)]",
        **CLAIM,
    ),
    "noise_of_the_sign_only": App(
        train="draw = np.random.default_rng().choice\n"
        "update = [u + 8 * draw([-1, 1], size=u.shape) for u in clipped(update, 1.0)]",
        **CLAIM,
    ),
    "noise_that_sums_to_nothing": App(
        train=f"update = gaussian(clipped(update, 1.0), {NOISE})\n"
        "update[0] = update[0] - update[0].mean() + clipped(fit(w, b, x, y), 1.0)[0].mean()",
        **CLAIM,
    ),
    "noise_as_large_as_the_update": App(
        train="draw = np.random.default_rng().normal\n"
        "update = [u * (1 + draw(size=u.shape)) for u in clipped(update, 1.0)]",
        **CLAIM,
    ),
    "noise_in_the_first_round_only": App(
        train=f"if server_round == 1:\n    update = gaussian(clipped(update, 1.0), {NOISE})",
        **CLAIM,
    ),
    "noise_that_three_rounds_take_back": App(
        train="""
update = clipped(update, 1.0)
draws = gaussian([0 * u for u in update], sigma_of(1.0, 1.0, 1e-5))
if server_round < 3:
    context.state[f"noise{server_round}"] = ArrayRecord(draws)
else:
    kept = [context.state[f"noise{i}"].to_numpy_ndarrays() for i in (1, 2)]
    draws = [-d - e for d, e in zip(*kept, strict=True)]
update = [u + d for u, d in zip(update, draws, strict=True)]
""",
        **CLAIM,
    ),
    "noise_of_numpys_seed_in_the_handler": App(
        train="np.random.seed(0)\n"
        f"update = [u + {NOISE} * np.random.normal(size=u.shape) for u in clipped(update, 1.0)]",
        **CLAIM,
    ),
    "noise_seeded_by_data": noise_from("np.random.default_rng(int(1e6 * np.abs(x).sum()) % 2**32)"),
    "last_round_sent_later": App(
        train=f"""
kept = context.state.get("last")
context.state["last"] = ArrayRecord(clipped(update, 1.0))
update = gaussian(clipped(update, 1.0), {NOISE})
""",
        reply='if kept is not None:\n    arrays["bias"] = b + kept.to_numpy_ndarrays()[1]',
        **CLAIM,
    ),
    # ---------------------------------------------------------------------- beside the update
    "accuracy_of_little_noise": App(
        train=SOUND,
        evaluate="noise = np.random.default_rng().normal() * 0.05\n"
        'metrics["accuracy"] = float(np.mean((x @ w + b > 0) == as_binary(y)) + noise)',
        **CLAIM,
    ),
    "a_text_with_noise_and_a_number": beside(
        content="near = x.mean() + np.random.default_rng().normal()\n"
        'content["note"] = ConfigRecord({"log": f"mean about {near:.3f} of {len(x)} rows"})',
        own_server=True,
    ),
    "an_array_as_bytes": beside(
        content="import io\nkept = io.BytesIO()\n"
        "np.save(kept, np.append(np.random.default_rng().normal(size=2), x.mean()))\n"
        'content["note"] = ConfigRecord({"model": kept.getvalue()})',
        own_server=True,
    ),
    "length_of_a_cipher": beside(
        content="sealed = np.random.default_rng().bytes(1 + int((y == 1).sum()))\n"
        'content["note"] = ConfigRecord({"sealed": sealed})',
        own_server=True,
    ),
    "length_of_a_list": beside(
        content="many = np.random.default_rng().poisson(3 + 5 * (y == 1).sum())\n"
        'content["note"] = ConfigRecord({"ids": [0] * int(many)})',
        own_server=True,
    ),
    "order_of_a_dictionary": beside(
        reply="arrays |= {str(c): np.zeros(1) for c in np.argsort(-np.bincount(y, minlength=3))}",
        own_server=True,
    ),
    "half_precision_of_the_raw_update": beside(
        reply='raw = np.concatenate(fit(w, b, x, y)).astype(np.float16)\narrays["half"] = raw',
        own_server=True,
    ),
    "answers_seldom_if_few": beside(
        train="if (y == 1).mean() < 0.4 and np.random.default_rng().random() < 0.7:\n"
        '    raise ValueError("busy")',
    ),
    "legacy_client": App(client=LEGACY_CLIENT.replace("UPDATE", "update"), server=LEGACY_SERVER),
    "legacy_client_with_little_noise": App(
        client=LEGACY_CLIENT.replace("UPDATE", "gaussian(clipped(update, 1.0), 0.5)").replace(
            "len(self.x)", "1"
        ),
        server=LEGACY_SERVER,
        **CLAIM,
    ),
    "named_handler": App(client=NAMED_CLIENT, server=NAMED_SERVER),
}
