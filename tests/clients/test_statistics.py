"""Statistics against naive loops, and their isolation: row i is user i's alone."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from math import comb, prod

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.special import expit

from ldp_flower import Users
from ldp_flower.clients import statistics
from ldp_flower.clients.statistics.registry import answers
from ldp_flower.guarantee.messages import MessageError
from ldp_flower.questions import (
    FrequentItems,
    Gradient,
    Mean,
    SecondMoments,
    Teacher,
    TensorMoments,
    question_from_wire,
)
from ldp_flower.questions.public_maps import frequencies, projection, synthetic_features
from ldp_flower.randomness import KeyedRandom, derive

DIM = 7


def make_users(seed=0, num_users=50):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, num_users)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    x = rng.standard_normal((offsets[-1], DIM))
    return Users(x, rng.standard_normal(offsets[-1]), offsets)


THETA = np.linspace(-1, 1, DIM)
SIGNS = np.array([1.0, -1, -1, 1, -1, 1, 1])
WITHIN = {"feature_bound": 2.5, "target_bound": 0.9}
WEIGHTS = {"product_weight": 0.8, "square_weight": 0.6}
PROJECTED = {"seed": 5.0, "projected_dim": 3.0}
FOURIER = {"seed": 5.0, "num_features": 4.0, "length_scale": 0.7}
CASES = {
    "gradient": ({"theta": THETA}, {}),
    "gradient of signs": (
        {"theta": THETA},
        {"feature_bound": 1.0, "residual_bound": 0.5},
    ),
    "gradient on a support": (
        {"theta": THETA, "coordinates": np.array([5, 1])},
        {"residual_bound": 0.5},
    ),
    "gradient of shortened rows": ({"theta": THETA}, {"row_bound": 1.5}),
    "logistic_gradient": ({"theta": THETA}, {}),
    "cosine_gradient of signs": (
        {"theta": THETA},
        {"feature_bound": 1.0, "residual_bound": 0.5},
    ),
    "curvature": ({"direction": THETA}, {"cap": 2.0}),
    "root_curvature": ({"direction": THETA}, {"centre": 1.5, "log_range": 2.0}),
    "frequent_items": ({}, {"set_size": 3.0, "domain_size": 4.0}),
    "drawn_items": ({}, {"set_size": 3.0, "domain_size": 4.0}),
    "shares_below": (
        {
            "coordinates": np.array([2]),
            "thresholds": np.array([0.3, -0.4]),
            "levels": np.array([0.2, 0.7]),
        },
        {},
    ),
    "cell": ({"coordinates": np.array([7]), "edges": np.array([-0.5, 0.1, 0.6])}, {}),
    "grain": (
        {"coordinates": np.array([0]), "origin": np.array([-0.25])},
        {"step": 2.0, "num_steps": 4.0},
    ),
    "table_cell": ({"coordinates": np.array([5, 1, 2]), "sizes": np.array([3.0])}, {}),
    "table_cell of the target": ({"coordinates": np.array([7]), "sizes": np.array([3.0])}, {}),
    "table_cell of a number": (
        {
            "coordinates": np.array([5, 1, 4]),
            "sizes": np.array([2.0]),
            "low": np.array([-0.5]),
            "high": np.array([2.0]),
        },
        {"levels": 4.0},
    ),
    "level_rounding": (
        {
            "coordinates": np.array([7]),
            "sizes": np.zeros(0),
            "low": np.array([-2.0]),
            "high": np.array([2.0]),
        },
        {"levels": 5.0},
    ),
    "correlated_features": ({}, {"set_size": 3.0}),
    "correlated_features by ridge": ({}, {"set_size": 3.0, "ridge": 0.5}),
    "lasso_features": ({}, {"set_size": 3.0, "penalty": 0.1}),
    "post_lasso_features": ({}, {"set_size": 3.0, "penalty": 0.1}),
    "pursued_features": ({}, {"set_size": 2.0}),
    "residual_coefficients": ({"theta": THETA, "weights": 1 + THETA**2}, {"ridge": 0.3}),
    "score_octave": ({"direction": THETA, "offset": np.array([-0.3])}, {}),
    "row_count": ({}, {"centre": 5.0, "log_range": 2.0}),
    "local_coefficients on a support": (
        {"theta": THETA, "offset": np.array([-0.3]), "coordinates": np.array([5, 1])},
        {"ridge": 0.4, "constant": 1.5},
    ),
    "ridge_shift": (
        {"theta": THETA / 3, "centre": np.array([0.4])},
        {"ridge": 0.3, "residual_bound": 0.7, "scale": 1.5},
    ),
    "ridge_shift_octave": (
        {"theta": THETA / 3, "centre": np.array([0.4])},
        {"ridge": 0.3, "residual_bound": 0.7, "scale": 1.5},
    ),
    "ridge_step": (
        {"theta": THETA / 3, "centre": np.array([0.4])},
        {"ridge": 0.3, "residual_bound": 0.7, "scale": 1.5},
    ),
    "ridge_step of rows": (
        {"theta": THETA / 3, "centre": np.array([0.4])},
        {"ridge": 0.3, "residual_bound": 0.7, "scale": 1.5, "of_rows": 2.0},
    ),
    "class_step": (
        {"theta": THETA / 3, "place": np.array([1.0])},
        {"ridge": 0.3, "num_classes": 3.0},
    ),
    "class_step weighted": (
        {"theta": THETA / 3, "place": np.array([1.0])},
        {"ridge": 0.3, "num_classes": 3.0, "weighted": 1.0},
    ),
    "class_share": ({"place": np.array([1.0])}, {"num_classes": 3.0}),
    "mean_score": ({"theta": THETA / 3}, {}),
    "ranking": ({"theta": THETA, "place": np.array([1.0])}, {"share": 0.3, "num_classes": 3.0}),
    "ranking_curve": (
        {"theta": THETA, "place": np.array([1.0]), "thresholds": np.array([0.4, -0.3, 0.1])},
        {"share": 0.3, "num_classes": 3.0},
    ),
    "score_shares": ({"theta": THETA, "edges": np.array([-0.4, 0.1, 0.5])}, {}),
    "residual_coefficients on a support": (
        {"theta": THETA, "weights": np.array([2.0, 0.5]), "coordinates": np.array([5, 1])},
        {"ridge": 0.3},
    ),
    "residual_coefficients and scale": (
        {"theta": THETA, "weights": 1 + THETA**2},
        {"ridge": 0.3, "scale": 0.7, "scale_weight": 2.0},
    ),
    "mean": ({"centre": THETA}, {}),
    "mean on a support": ({"centre": THETA, "coordinates": np.array([5, 1])}, {}),
    "weighted_mean": (
        {"centre": THETA, "weights": np.array([2.0, 0.5]), "coordinates": np.array([5, 1])},
        {},
    ),
    "outstanding_features": ({}, {"set_size": 3.0}),
    "class_correlated_features": ({}, {"set_size": 3.0}),
    "class_correlated_features by ridge": ({}, {"set_size": 3.0, "ridge": 0.5}),
    "class_lasso_features": ({}, {"set_size": 3.0, "penalty": 0.1}),
    "class_post_lasso_features": ({}, {"set_size": 3.0, "penalty": 0.1}),
    "class_pursued_features": ({}, {"set_size": 2.0}),
    "class_coefficients": ({"theta": THETA, "weights": 1 + THETA**2}, {"ridge": 0.3}),
    "class_coefficients on a support": (
        {"theta": THETA, "weights": np.array([2.0, 0.5]), "coordinates": np.array([5, 1])},
        {"ridge": 0.3},
    ),
    "distance_scale": ({"centre": THETA}, {"smallest": 0.1, "per_octave": 2.0, "num_bins": 12.0}),
    "rotated_mean": (
        {"centre": 0 * THETA, "signs": SIGNS, "midpoints": np.linspace(-1, 2, 8)},
        {},
    ),
    "rotated_gradient on a support": (
        {
            "theta": THETA,
            "coordinates": np.array([5, 1, 4]),
            "signs": SIGNS[:3],
            "midpoints": np.linspace(-1, 2, 4),
        },
        {"residual_bound": 0.5},
    ),
    "rotated_residual_coefficients": (
        {"theta": THETA, "weights": 1 + THETA**2, "signs": SIGNS, "midpoints": np.zeros(8)},
        {"ridge": 0.3},
    ),
    "rotated_mean_bins": ({"centre": THETA, "signs": SIGNS}, {"bound": 0.7, "num_bins": 8.0}),
    "rotated_gradient_bins": ({"theta": THETA, "signs": SIGNS}, {"bound": 3.0, "num_bins": 4.0}),
    "rotated_residual_coefficients_bins": (
        {"theta": THETA, "weights": 1 + THETA**2, "signs": SIGNS},
        {"ridge": 0.3, "bound": 0.7, "num_bins": 8.0},
    ),
    "labels": ({}, {"labels_per_user": 3.0, "label_bound": 0.8}),
    "second_moments": ({}, WITHIN | WEIGHTS),
    "tensor_moments": ({}, WITHIN | {"degree": 3.0, "stride": 2.0}),
    "tensor_moments of all powers": ({}, WITHIN | {"degree": 2.0, "stride": 1.0}),
    "record": ({}, WITHIN),
    "record_copies": ({}, WITHIN | {"copies": 2.0}),
    "class_tensor_moments": ({}, WITHIN | {"degree": 3.0, "stride": 2.0}),
    "class_record_copies": ({}, WITHIN | {"copies": 2.0}),
    "projected_class_tensor_moments": (
        {},
        PROJECTED | WITHIN | {"degree": 3.0, "stride": 2.0},
    ),
    "projected_class_record_copies": ({}, PROJECTED | WITHIN | {"copies": 2.0}),
    "projected_mean": ({"centre": np.ones(3)}, PROJECTED),
    "projected_record": ({}, PROJECTED | WITHIN),
    "projected_record_copies": ({}, PROJECTED | WITHIN | {"copies": 2.0}),
    "projected_second_moments": ({}, PROJECTED | WITHIN | WEIGHTS),
    "projected_tensor_moments": ({}, PROJECTED | WITHIN | {"degree": 3.0, "stride": 2.0}),
    "fourier_second_moments": ({}, FOURIER | WITHIN | WEIGHTS),
    "fourier_record": ({}, FOURIER | WITHIN),
    "target_scale": ({}, {"smallest": 0.1, "per_octave": 2.0, "num_bins": 12.0}),
    "teacher": ({"centre": THETA}, {"sparsity": 7.0, "radius": 50.0, "ridge": 1.0}),
    "teacher by its answers": (
        {"centre": THETA},
        {
            "sparsity": 7.0,
            "radius": 50.0,
            "ridge": 1.0,
            "num_answers": 5.0,
            "synthetic_seed": 3.0,
        },
    ),
    "squared_errors": (
        {
            "theta": THETA,
            "centre": np.array([0.4]),
            "loss_weight": np.array([1.5]),
            "baseline_weight": np.array([-0.7]),
            "offset": np.array([0.2]),
        },
        {},
    ),
    "logistic_teacher": ({"centre": THETA}, {"sparsity": 7.0, "radius": 50.0, "ridge": 1.0}),
}
MOVED = {  # the second and the last feature are left as they are, of the others some are clipped
    "means": np.array([0.3, 0, -1.0, 0.2, 0.0, 2.0, 0, -0.4]),
    "scales": np.array([2.0, 1, 0.5, 0.3, 0.6, 1.0, 1, 0.7]),
}
CASES |= {
    f"standardised_{case}": (CASES[case][0] | MOVED, CASES[case][1])
    for case in (
        "root_curvature",
        "ridge_step",
        "ridge_shift",
        "ridge_shift_octave",
        "class_step",
        "mean_score",
        "ranking",
    )
}
SIZES = {"centre": 0.8, "log_range": 0.5}
SOME = {"coordinates": np.array([7, 1, 4])}
CASES |= {
    "standardised_column_means": ({"centre": np.linspace(-1, 1, 8), **MOVED}, {}),
    "standardised_column_means on a support": (
        {"centre": np.linspace(-1, 1, 8), **SOME, **MOVED},
        {},
    ),
    "standardised_column_log_sizes": (MOVED, SIZES),
    "standardised_column_log_sizes on a support": (SOME | MOVED, SIZES),
    "standardised_column_mean_norm": ({"centre": np.linspace(-1, 1, 8), **MOVED}, SIZES),
    "standardised_column_mean_norm on a support": (
        {"centre": np.linspace(-1, 1, 8), **SOME, **MOVED},
        SIZES,
    ),
}
TEACHER = {"sparsity": 2.0, "radius": 1.0}
each = pytest.mark.parametrize("case", CASES)


def asked(case):
    return question_from_wire(case.split()[0], *CASES[case])


def compute(case, users):
    return statistics.compute(as_items(case, users), asked(case))


def as_items(case, users):
    """Make small integers of the first column, or of targets, where a statistic takes these."""
    if case.startswith(("class_s", "ranking")):
        return replace(users, targets=np.round(users.targets))
    if not case.endswith("_items"):
        return users
    x = users.features.copy()
    x[:, 0] = np.round(2 * x[:, 0])
    return replace(users, features=x)


def naive_cell(case, x, y):
    """With the draws of a user whose word is 0."""
    if case == "level_rounding":
        between = (np.clip(y.mean(), -2, 2) + 2) % 1 if len(y) else np.nan
        return 4 * between * (1 - between) - 0.5
    if case == "table_cell of the target":
        return np.clip(y[0], 0, 2) if len(y) else 3
    if case == "table_cell":
        return np.argmax(x[0, [5, 1, 2]]) if len(x) else 3
    if not len(x):
        return 8
    group = np.argmax(x[:, [5, 1]], axis=1)
    place = np.clip((x[group == group[0], 4].mean() + 0.5) / 2.5, 0, 1) * 3
    draw = KeyedRandom(derive(np.zeros(1, np.uint64), 1)).uniforms((1, 2))[0, 0]
    return 4 * group[0] + np.floor(place) + (draw < place % 1)


def naive_class(case, x, y):
    """Rows of class 1 are those whose target is 1."""
    if not len(x):
        width = 6 if case == "ranking_curve" else 1
        return np.zeros(DIM if case.startswith("class_step") else width)
    own = np.round(y) == 1
    if case == "class_share":
        return [own.mean() - 0.5]
    if case == "mean_score":
        return [np.mean([np.clip(row @ THETA / 3, -1, 1) for row in x])]
    if case == "ranking_curve":
        signs = [np.sign(x @ THETA - threshold) for threshold in (0.4, -0.3, 0.1)]
        return [*(np.mean((own - 0.3) * each) for each in signs), *0.35 * np.mean(signs, axis=1)]
    if case == "ranking":
        return [np.mean((own - 0.3) * np.sign(x @ THETA))]
    residual = np.where(own, 1, -1) - np.tanh(x @ THETA / 3)
    step = x.T @ np.linalg.solve(x @ x.T / len(x) + 0.3 * np.eye(len(x)), residual)
    size = min(1, np.sqrt(np.mean(residual**2))) if "weighted" in case else 1
    return size * step / np.linalg.norm(step)


def test_a_statistic_that_draws_needs_a_question_that_says_so():
    with pytest.raises(TypeError, match="Expected draws = True in Mean, whose statistic draws"):
        answers(Mean, draws=True)


def naive_octave(size):
    """Without words all are rounded down."""
    return [np.clip(np.floor(np.log2(size) + 32), 0, 63) if size > 0 else -1.0]


def naive(case, x, y):
    """One user, one row at a time, as the docstrings say it."""
    arrays, params = CASES[case]
    if case.startswith("standardised_"):
        return naive_standardised(case, x, y)
    if case.startswith("rotated_"):
        return naive_rotation(case, x, y)
    if case == "row_count":
        return [np.log(max(len(x), 1) / 5) / 2]
    if case == "score_octave":
        return naive_octave(np.sqrt(np.mean((x @ THETA - 0.3) ** 2)) if len(x) else 0.0)
    if case == "frequent_items":
        held = Counter(item for item in np.round(2 * x[:, 0]) if 0 <= item < 4)
        # Equally frequent ones in the order of their first rows, as a Counter keeps them.
        return [*sorted(held, key=lambda item: -held[item]), 4, 5, 6][:3]
    if case == "drawn_items":
        return [*Counter(item for item in np.round(2 * x[:, 0]) if 0 <= item < 4), 4, 5, 6][:3]
    if case.startswith(("table_cell", "level_rounding")):
        return [naive_cell(case, x, y)]
    if case == "shares_below":
        shares = [(x[:, 2] <= t).mean() for t in (0.3, -0.4)] if len(x) else [0.2, 0.7]
        return [2 * share - 1 for share in shares]
    if case == "cell":
        return [sum(y[0] > edge for edge in (-0.5, 0.1, 0.6)) if len(y) else 4]
    if case == "grain":
        if not len(x):
            return [5]
        multiples = [((x[0, 0] + 0.25) / step) % 1 in (0.0, 1.0) for step in (2, 1, 0.2, 0.1)]
        return [multiples.index(True) if any(multiples) else 4]
    if case == "labels":
        return [*np.clip(y, -0.8, 0.8)[:3], *[0.0] * (3 - len(y))]
    if case == "curvature":
        squares = [min(row @ THETA * (row @ THETA), 2.0) for row in x]
        return [sum(squares) / max(len(squares), 1) / 1.0 - 1]
    if case == "root_curvature":
        size = np.sqrt(np.mean((x @ THETA) ** 2)) if len(x) else 0.0
        return [np.log(size / 1.5) / 2 if size else -np.inf]
    if case == "squared_errors":
        losses = [(target - row @ THETA) ** 2 for row, target in zip(x, y, strict=True)]
        loss, baseline = (sum(part) / max(len(x), 1) for part in (losses, (y - 0.4) ** 2))
        return [1.5 * loss - 0.7 * baseline - 0.2]
    if case == "weighted_mean":
        return arrays["weights"] * (sum(x) / len(x) - THETA if len(x) else THETA * np.nan)[[5, 1]]
    if case == "outstanding_features":
        squares = (x**2).sum(axis=0)
        typical = squares.mean() / max(len(x), 1)
        own = np.sqrt((squares + 4 * typical) / (len(x) + 4))
        order = np.argsort(-np.abs(x.sum(axis=0) / own), kind="stable")[:3] if len(x) else [-1] * 3
        return sorted(order)
    if case == "score_shares":
        scores, edges = x @ THETA, np.array([-np.inf, -0.4, 0.1, 0.5, np.inf])
        counts = [((low < scores) & (scores <= high)).sum() for low, high in pairwise(edges)]
        return np.array(counts) / max(len(x), 1)
    if case in ("class_share", "mean_score", "ranking", "ranking_curve") or case.startswith(
        "class_step"
    ):
        return naive_class(case, x, y)
    if case.startswith("class_"):
        labels = np.array([1.0 if target > 0 else -1.0 for target in y])
        if not case.startswith("class_coefficients"):
            return naive(case.removeprefix("class_"), x, labels)
        residual = standardised(labels - np.tanh(x @ THETA / 2))
        wanted = arrays.get("coordinates", np.arange(DIM))
        return arrays["weights"] * naive_ridge(x[:, wanted], residual, 0.3)
    if case.split()[0] == "mean":
        mean = sum(x) / len(x) - THETA if len(x) else np.full(DIM, np.nan)
        return mean[arrays.get("coordinates", np.arange(DIM))]
    if case in ("target_scale", "distance_scale"):
        size = 0
        if len(x):
            distance = np.linalg.norm(sum(x) / len(x) - THETA)
            size = distance if case == "distance_scale" else np.sqrt(sum(y**2) / len(y))
        return [np.clip(np.floor(2 * np.log2(size / 0.1)), 0, 11) if size else -1]
    if case.startswith(("projected_", "fourier_")):
        return naive_map(case, x, y)
    if case.startswith("record"):
        return naive_record(case, params, x, y)
    if case.split()[0].endswith("_moments"):
        return naive_moments(params, x, y)
    if case.startswith("residual_coefficients"):
        wanted, more = arrays.get("coordinates", np.arange(DIM)), []
        if not y.any():
            return [0.0] * (len(wanted) + ("scale" in params))
        if "scale" in params:
            more = [2.0 * np.log(np.sqrt(np.mean(y**2)) / 0.7)]
        residual = standardised(standardised(y) - x @ THETA)
        return [*arrays["weights"] * naive_ridge(x[:, wanted], residual, 0.3), *more]
    if case.startswith("local_coefficients"):
        if not len(x):
            return np.zeros(3)
        joined = np.column_stack([x[:, [5, 1]], np.full(len(x), 1.5)])
        left = y - x @ THETA + 0.3
        penalty = 0.4 * np.mean(joined**2) * len(x)
        return np.linalg.solve(joined.T @ joined + penalty * np.eye(3), joined.T @ left)
    if case.startswith("ridge_"):
        residual = np.clip((y - 0.4) / 1.5 - x @ THETA / 3, -0.7, 0.7)
        ridge = 0.3 / params.get("of_rows", max(len(x), 1))
        gram = x @ x.T / max(len(x), 1) + ridge * np.eye(len(x))
        step = x.T @ np.linalg.solve(gram, residual) if len(x) else np.zeros(DIM)
        length = np.linalg.norm(step)
        if case == "ridge_shift_octave":
            return naive_octave(length / max(len(x), 1))
        if case == "ridge_shift":
            return step / max(len(x), 1)
        return step / length if length else step
    if case.endswith("_features") or case.endswith("by ridge"):
        return naive_selection(case, x, y)
    if "teacher" in case:
        return naive_teacher(case, x, y)
    total = np.zeros(DIM)
    for row, target in zip(x, y, strict=True):
        score = naive_score(case, row @ THETA, target)
        row = np.clip(
            row, -params.get("feature_bound", np.inf), params.get("feature_bound", np.inf)
        )
        factor = min(1, params.get("row_bound", np.inf) / np.linalg.norm(row))
        bound = params.get("residual_bound", np.inf)
        total += np.clip(factor * score, -bound, bound) * factor * row
    gradient = total / max(len(x), 1)
    return gradient[arrays.get("coordinates", np.arange(DIM))]


def naive_score(case, u, target):
    if case.startswith("logistic"):
        return 1 / (1 + np.exp(-u)) - (target > 0)
    if case.startswith("cosine"):
        return (2 * u + np.cos(u) - target) * (2 - np.sin(u))
    return u - target


def naive_teacher(case, x, y):
    """Solve the ridge problem, by Newton's method; all coefficients may differ from zero."""
    theta = np.zeros(DIM)
    y = (y > 0).astype(float) if case.startswith("logistic") else y
    for _ in range(50 if len(x) else 0):
        u = x @ theta
        mean, weight = (u, 1 + 0 * u) if case.startswith("teacher") else (expit(u), expit_slope(u))
        hessian = (x.T * weight) @ x / len(x) + np.eye(DIM)
        theta = theta - np.linalg.solve(hessian, x.T @ (mean - y) / len(x) + theta)
    if "answers" in case:
        return synthetic_features(3, 5, DIM) @ (theta - THETA)
    return theta - THETA


def expit_slope(u):
    return expit(u) * expit(-u)


def naive_rotation(case, x, y):
    """Multiply with the matrix; the inner values are those of the plain statistic's test."""
    arrays, params = CASES[case]
    users = Users(x, y, np.array([0, len(x)]))
    inner = statistics.compute(users, asked(case).inner)[0]
    value = np.zeros(4 if len(inner) == 3 else 8)
    value[: len(inner)] = inner * arrays["signs"]
    rotated = hadamard(len(value)) @ value / np.sqrt(len(value))
    if "midpoints" in arrays:
        return rotated - arrays["midpoints"]
    edges = np.linspace(-1, 1, int(params["num_bins"]) + 1)[1:-1] * params["bound"]
    return [np.nan if np.isnan(v) else sum(v >= edges) for v in rotated]


def naive_standardised(case, x, y):
    """Move column after column; what is asked of all columns has the target as the last one."""
    columns = np.column_stack([x, y])
    for j in set(range(DIM + 1)) - {1, 6}:
        moved = (columns[:, j] - MOVED["means"][j]) / MOVED["scales"][j]
        columns[:, j] = np.minimum(np.maximum(moved, -3), 3)
    case = case.removeprefix("standardised_")
    if case.startswith(("class_s", "ranking")):  # moved targets are no places of classes
        columns[:, -1] = 0
    if not case.startswith("column_"):
        return naive(case, columns[:, :-1], columns[:, -1])
    wanted = [7, 1, 4] if case.endswith("on a support") else np.arange(DIM + 1)
    if "mean" in case:
        difference = (columns.mean(axis=0) if len(x) else np.nan) - np.linspace(-1, 1, 8)
        if "norm" in case:
            return [np.log(np.linalg.norm(difference[wanted]) / 0.8) / 0.5]
        return difference[wanted]
    sizes = np.sqrt((columns**2).mean(axis=0)) if len(x) else np.zeros(DIM + 1)
    with np.errstate(divide="ignore"):
        logs = np.clip(np.log(sizes / 0.8), -0.5, 0.5) if sizes.any() else sizes
    return logs[wanted]


def naive_map(case, x, y):
    """Multiply with the map's matrix; the rest is as without a map."""
    params = CASES[case][1]
    name = case.split("_", 1)[1]
    if name.startswith("class_"):
        y = np.array([1.0 if target > 0 else -1.0 for target in y])
    if case.startswith("projected"):
        x = x @ projection(5, DIM, 3)
    else:
        phases = x @ frequencies(5, DIM, 4) / 0.7
        x = np.concatenate([np.cos(phases), np.sin(phases)], axis=1) / np.sqrt(2)
    if name == "mean":
        return sum(x) / len(x) - 1 if len(x) else np.full(3, np.nan)
    return naive_record(case, params, x, y) if "record" in name else naive_moments(params, x, y)


def naive_record(case, params, x, y):
    copies = int(params.get("copies", 1))
    if not len(x):
        return np.full(x.shape[1] * (copies + 1) if "copies" in params else x.shape[1] + 1, np.nan)
    row, target = x[0] / max(2.5, np.linalg.norm(x[0])), np.clip(y[0] / 0.9, -1, 1)
    if "copies" in params:
        return np.concatenate([target * row, *[row] * copies])
    return np.append(row, target)


def naive_moments(params, x, y):
    """Sum over all d**degree products, and collect equal ones by their root of squares."""
    dim, stride = x.shape[1], int(params.get("stride", 2))
    degrees = range(stride, int(params.get("degree", 1)) + 2, stride)
    even = (1 + len(degrees)) ** -0.5
    weights = [params.get("product_weight", even), params.get("square_weight", even)]
    total = np.zeros(dim + sum(comb(dim + q - 1, q) for q in degrees))
    for row, target in zip(x, y, strict=True):
        row = row / max(2.5, np.linalg.norm(row))
        numbers = row.tolist()
        parts = [weights[0] * row * np.clip(target / 0.9, -1, 1)]
        for q in degrees:
            squares, signs = {}, {}
            for indices in product(range(dim), repeat=q):
                term, key = prod(numbers[i] for i in indices), tuple(sorted(indices))
                squares[key] = squares.get(key, 0.0) + term**2
                signs[key] = np.sign(term)
            parts.append(
                [weights[1] * signs[key] * np.sqrt(squares[key]) for key in sorted(squares)]
            )
        total += np.concatenate(parts)
    return total / max(len(x), 1)


def standardised(y):
    return y / np.sqrt(np.mean(y**2)) if y.any() else y


def naive_ridge(x, y, ridge):
    rows = max(len(x), 1)
    return np.linalg.inv(x.T @ x / rows + ridge * np.eye(x.shape[1])) @ (x.T @ y / rows)


def naive_selection(case, x, y):
    """Sort the scores; for a local fit they are those of another solver."""
    params = CASES[case][1]
    size = int(params["set_size"])
    if case.endswith("by ridge"):
        scores = naive_ridge(x, y, params["ridge"])
    elif case == "pursued_features":
        scores, residual = np.zeros(DIM), y
        for _ in range(min(size, len(x))):
            new = np.argmax(np.abs(x.T @ residual) * (scores == 0))
            support = [*np.flatnonzero(scores).tolist(), new]
            scores[support] = np.linalg.lstsq(x[:, support], y)[0]
            residual = y - x @ scores
    elif "lasso" in case and len(x):
        penalty = 0.1 * np.sqrt(2 * np.log(DIM) / len(x)) * np.sqrt(np.mean(y**2))
        scores, before, square = np.zeros(DIM), None, np.linalg.norm(x, 2) ** 2
        step, start, shrink = np.eye(DIM) - x.T @ x / square, x.T @ y / square, penalty * len(x)
        for _ in range(4000):  # proximal gradient
            moved, before = step @ scores + start, scores
            scores = np.sign(moved) * np.maximum(np.abs(moved) - shrink / square, 0)
            if np.abs(scores - before).max() < 1e-15:
                break
        if case.startswith("post"):
            support = np.argsort(-np.abs(scores), kind="stable")[: max(1, len(x) // 2)]
            support = support[scores[support] != 0]
            scores = np.zeros(DIM)
            if len(support):
                scores[support] = np.linalg.lstsq(x[:, support], y)[0]
    else:
        scores = x.T @ y
    order = np.argsort(-np.abs(scores), kind="stable")[:size]
    return sorted(order[scores[order] != 0].tolist() + [-1] * int((scores[order] == 0).sum()))


@each
def test_it_is_what_its_docstring_says(case):
    """For other types of numbers, see ``test_the_type_that_a_node_keeps_moves_no_bit``."""
    users = make_users(num_users=25)
    found = compute(case, users)
    for i in range(len(users)):
        rows = slice(users.offsets[i], users.offsets[i + 1])
        expected = naive(case, users.features[rows], users.targets[rows])
        if case.split()[0].endswith("_features"):
            found[i].sort()  # a set
        if np.isneginf(expected).any():
            assert (found[i] < -100).all()  # no rows: as small as can be
        else:
            # A teacher stops where steps change a millionth.
            close = 1e-4 if "teacher" in case else 1e-12
            np.testing.assert_allclose(found[i], expected, atol=close)


def changed(users, user, x, y):
    """Return the users with one user's rows replaced, its number of rows included."""
    a, b = users.offsets[user], users.offsets[user + 1]
    offsets = users.offsets.copy()
    offsets[user + 1 :] += len(x) - (b - a)
    features = np.concatenate([users.features[:a], x, users.features[b:]])
    return Users(features, np.concatenate([users.targets[:a], y, users.targets[b:]]), offsets)


@each
def test_a_user_alone_has_the_value_that_it_has_among_others(case):
    """Or else who is computed beside whom, after somebody's data have failed, would show."""
    users = make_users()
    whole = compute(case, users)
    alone = [compute(case, users[i : i + 1]) for i in range(len(users))]
    np.testing.assert_array_equal(np.concatenate(alone), whole)


@each
def test_changing_one_user_leaves_every_other_row_bitwise_unchanged(case):
    users = make_users(num_users=15)
    with np.errstate(all="ignore"):
        before = compute(case, users)
        for rows, value, user in product((0, 1, 3, 40), (1.0, 1e9, np.nan, np.inf), (0, 8, 14)):
            other = changed(users, user, np.full((rows, DIM), value), np.full(rows, value))
            found, expected = (np.delete(a, user, axis=0) for a in (compute(case, other), before))
            np.testing.assert_array_equal(found, expected, f"{rows} rows of {value}, user {user}")


@pytest.mark.parametrize(
    ("name", "arrays", "params", "width"),
    [
        ("gradient", {}, {}, DIM),
        ("gradient", {"theta": np.zeros(DIM + 1)}, {}, DIM),
        ("gradient", {"theta": np.zeros((DIM, 1))}, {}, DIM),
        ("gradient", {"theta": np.zeros(DIM, np.float32)}, {}, DIM),
        ("gradient", {"theta": np.zeros(DIM)}, {}, DIM - 1),
        ("gradient", {"theta": np.zeros(DIM), "more": np.zeros(DIM)}, {}, DIM),
        ("gradient", {"theta": np.zeros(DIM)}, {"residual_bound": -1.0}, DIM),
        ("gradient", {"theta": np.zeros(DIM)}, {"cap": 1.0}, DIM),
        ("gradient", {"theta": np.zeros(DIM), "coordinates": np.array([DIM])}, {}, 1),
        ("gradient", {"theta": np.zeros(DIM), "coordinates": np.array([1, 1])}, {}, 2),
        ("gradient", {"theta": np.zeros(DIM), "coordinates": np.array([-1])}, {}, 1),
        ("gradient", {"theta": np.zeros(DIM), "coordinates": np.array([], np.int64)}, {}, 0),
        ("gradient", {"theta": np.zeros(DIM), "coordinates": np.array([1.0])}, {}, 1),
        ("gradient", {"theta": np.zeros(DIM), "centre": np.zeros(DIM - 1)}, {}, DIM),
        ("gradient", {"centre": np.zeros(DIM)}, {}, DIM),
        ("frequent_items", {}, {"set_size": 2.0}, 2),
        ("frequent_items", {}, {"set_size": 2.0, "domain_size": 8.0}, 1),
        ("frequent_items", {}, {"set_size": 0.0, "domain_size": 8.0}, 0),
        ("frequent_items", {"theta": np.zeros(DIM)}, {"set_size": 1.0, "domain_size": 8.0}, 1),
        ("curvature", {"direction": np.zeros(DIM)}, {}, 1),
        ("second_moments", {}, WITHIN | WEIGHTS, DIM),
        ("second_moments", {}, WITHIN, 35),
        ("second_moments", {"theta": np.zeros(DIM)}, WITHIN | WEIGHTS, 35),
        ("tensor_moments", {}, WITHIN | {"degree": 2.0, "stride": 2.0}, 35),
        ("tensor_moments", {}, WITHIN | {"degree": 1.5, "stride": 1.0}, 35),
        ("tensor_moments", {}, WITHIN | {"degree": 1.0, "stride": 3.0}, 35),
        ("tensor_moments", {}, WITHIN | {"degree": 1e9, "stride": 1.0}, 35),
        ("tensor_moments", {}, WITHIN | {"degree": 3.0, "stride": 2.0}, 35),
        ("record", {}, WITHIN, DIM),
        ("record_copies", {}, WITHIN | {"copies": 1e9}, DIM),
        ("record_copies", {}, WITHIN | {"copies": 1.5}, 18),
        ("projected_mean", {"centre": np.zeros(DIM)}, PROJECTED, 3),
        ("projected_mean", {"centre": np.zeros(3)}, PROJECTED, DIM),
        ("projected_mean", {"centre": np.zeros(8)}, PROJECTED | {"projected_dim": 8.0}, 8),
        ("projected_mean", {"centre": np.zeros(3)}, PROJECTED | {"seed": 0.5}, 3),
        ("projected_mean", {"centre": np.zeros(3)}, PROJECTED | {"seed": 1e300}, 3),
        ("fourier_record", {}, WITHIN | FOURIER | {"num_features": 3.0}, 4),
        ("fourier_record", {}, WITHIN | FOURIER | {"num_features": 1e9}, 10**9 + 1),
        ("curvature", {"direction": np.zeros(DIM)}, {"cap": 1.0}, 2),
        ("teacher", {"centre": THETA}, {"sparsity": 2.0}, DIM),
        ("teacher", {"centre": THETA}, TEACHER, DIM - 1),
        ("teacher", {"centre": THETA}, TEACHER | {"num_answers": 3.0}, 3),
        ("teacher", {"centre": THETA}, TEACHER | {"num_answers": 3.0, "synthetic_seed": 1.0}, 4),
        ("teacher", {"centre": THETA}, TEACHER | {"num_answers": 8.0, "synthetic_seed": 1.0}, 8),
        ("mean", {}, {}, DIM),
        ("rotated_mean", {"centre": THETA, "signs": SIGNS, "midpoints": np.zeros(8)}, {}, DIM),
        ("rotated_mean", {"centre": THETA, "signs": SIGNS, "midpoints": np.zeros(DIM)}, {}, 8),
        ("rotated_mean", {"centre": THETA, "signs": np.ones(8), "midpoints": np.zeros(8)}, {}, 8),
        ("rotated_mean_bins", {"centre": THETA, "signs": SIGNS}, {"num_bins": 4.0}, 8),
        (
            "rotated_residual_coefficients",
            CASES["rotated_residual_coefficients"][0],
            {"ridge": 0.3, "scale": 0.7, "scale_weight": 2.0},
            8,
        ),
        ("squared_errors", {"theta": THETA}, {}, 1),
        ("squared_errors", CASES["squared_errors"][0] | {"offset": np.zeros(2)}, {}, 1),
        ("squared_errors", CASES["squared_errors"][0], {}, 2),
        ("standardised_ridge_step", *CASES["ridge_step"], DIM),
        (
            "standardised_ridge_step",
            {**CASES["standardised_ridge_step"][0], "means": THETA},
            CASES["ridge_step"][1],
            DIM,
        ),
        ("class_step", CASES["class_step"][0], CASES["class_step"][1] | {"weighted": -1.0}, DIM),
        ("gradient", {"theta": THETA}, {"weighted": 1.0}, DIM),
        ("standardised_column_log_sizes", {"coordinates": np.array([8])} | MOVED, SIZES, 1),
        ("standardised_column_log_sizes", MOVED, SIZES, DIM),
        ("standardised_column_means", {"centre": THETA} | MOVED, {}, DIM + 1),
        ("curvature", {"direction": np.zeros(DIM), "coordinates": np.array([0])}, {"cap": 1.0}, 1),
        ("class_share", {"place": np.ones(1)}, {"num_classes": 1e9}, 1),
        ("table_cell", {"coordinates": np.array([0, DIM]), "sizes": np.array([2.0])}, {}, 1),
        ("table_cell", {"coordinates": np.array([0, 1]), "sizes": np.array([3.0])}, {}, 1),
        ("table_cell", {"coordinates": np.arange(3), "sizes": np.array([2.0])}, {}, 1),
    ],
)
def test_queries_that_do_not_fit_are_refused(name, arrays, params, width):
    with pytest.raises(MessageError):
        question_from_wire(name, arrays, params).check(DIM, width)


def test_what_is_no_item_is_passed_over():
    nothing = [np.nan, np.inf, -np.inf, -1.0, 2.5, 2.0**40, 1e300]
    rows = [[], nothing, [*nothing, 0.0, 7.0, 7.0], [2.0**40 - 1], [3.0, 2.0, 1.0]]
    x = np.concatenate([np.array(row, np.float64) for row in rows])[:, None]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    users = Users(x, np.zeros(len(x)), offsets)
    end = 2.0**40
    expected = [[end, end + 1], [end, end + 1], [7, 0], [end - 1, end], [3, 2]]
    found = statistics.compute(users, FrequentItems(set_size=2, domain_size=2**40))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("dim", [200, 9000])
def test_wide_rows_do_not_mix_users_either(dim, rows):
    """Two users: how many rows the first holds must not move the second's last bit.

    Libraries add up one long row in another order than several.
    """
    rng = np.random.default_rng(dim)
    theta = rng.standard_normal(dim) * 10.0 ** rng.integers(-9, 9, dim)
    own = rng.standard_normal((1, dim))

    def second(first_rows):
        x = np.concatenate([np.ones((first_rows, dim)), own])
        users = Users(x, np.zeros(len(x)), np.array([0, first_rows, first_rows + 1]))
        return statistics.compute(users, Gradient(theta))[1]

    np.testing.assert_array_equal(second(rows), second(3))


@pytest.mark.parametrize("degree", [1, 3])
def test_moments_are_never_longer_than_their_weights_say(degree):
    """Antipodal extremes differ by the diameter, but for the squares, which are the same."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, DIM)) * 10.0 ** rng.integers(-3, 200, (2000, 1))
    users = Users.from_rows(x, rng.standard_normal(2000) * 10)
    question = TensorMoments(1.0, 1.0, degree=3, stride=2)
    if degree == 1:
        question = SecondMoments(1.0, 1.0, **WEIGHTS)
    values = statistics.compute(users, question)
    lengths = np.linalg.norm(values, axis=1)
    assert lengths.max() <= 1 + 1e-12
    assert lengths.max() > 1 - 1e-12
    opposite = np.zeros((2, DIM))
    opposite[:, 3] = 1.0
    users = Users.from_rows(opposite, np.array([1.0, -1.0]))
    first, second = statistics.compute(users, question)
    share = 0.8 if degree == 1 else 3**-0.5
    assert np.linalg.norm(first - second) == pytest.approx(2 * share)


def test_many_rows_are_packed_a_few_columns_at_a_time(monkeypatch):
    users = make_users()
    whole = compute("tensor_moments", users)
    monkeypatch.setattr("ldp_flower.clients.statistics.means._BLOCK_ENTRIES", 1000)
    np.testing.assert_array_equal(compute("tensor_moments", users), whole)


@pytest.mark.parametrize("rows", [0, 1, 5, 64])
@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_the_teachers_of_wide_rows_do_not_mix_users(link, rows):
    rng = np.random.default_rng(rows)
    own = rng.standard_normal((37, 501))
    question = Teacher(np.zeros(501), sparsity=5, radius=3.0, link=link)

    def second(first_rows):
        x = np.concatenate([np.ones((first_rows, 501)), own])
        y = (x[:, 7] + x[:, 8] > 0).astype(float)
        users = Users(x, y, np.array([0, first_rows, first_rows + 37]))
        return statistics.compute(users, question)[1]

    assert np.count_nonzero(second(rows)) == 5
    np.testing.assert_array_equal(second(rows), second(3))
