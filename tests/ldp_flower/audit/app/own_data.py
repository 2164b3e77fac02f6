"""Apps with data of other forms than the template's: quantities, targets in a table, ages."""

from strangers import App

CLIENT = '''
"""The client."""

import random

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def load_rows(partition):
    rng = np.random.default_rng(partition)
LOAD


def clipped(update):
    update = np.nan_to_num(update)
    return update / max(1.0, np.linalg.norm(update))


@app.train()
def train(message, context):
    data = load_rows(int(context.node_config["partition-id"]))
    rng = np.random.default_rng()
    content = RecordDict()
TRAIN
    return Message(content, reply_to=message)
'''

PULSES = "return rng.uniform(40, 180, size=(25, 4))"
TARGETS_APART = "x = rng.normal(size=(40, 5))\nreturn x, x.sum(axis=1)"
TARGETS_INSIDE = "x = rng.normal(size=(40, 3))\nreturn np.column_stack([x, x.sum(axis=1)])"
AGES = "return np.stack([rng.integers(18, 99, 12), rng.integers(0, 2, 12)], 1).astype(float)"
COUNTS = "return rng.poisson(3, size=50)"
VOTES = "return rng.uniform(0, 1, size=120)"
ONE_BY_ONE = "return np.array([[rng.normal() for _ in range(3)] for _ in range(20)])"

FITTED = "coef = np.linalg.lstsq(np.nan_to_num(x), np.nan_to_num(y), rcond=None)[0]\n"
MEANS = """
rates = np.clip(np.nan_to_num(data), 40, 200)
means = (rates.mean(axis=0) - 40) / 160 if len(rates) else np.zeros(4)
"""
# Randomised response of epsilon ln 3, and a text of what is wrong with the data.
SURVEY = """
try:
    for age, vote in data:
        if not 18 <= age <= 99:
            raise ValueError(PROBLEM)
    truth = int(data[:, 1].mean() > 0.5) if len(data) else 0
    found, problem = truth if rng.random() < 0.5 else int(rng.integers(2)), ""
except ValueError as error:
    found, problem = 0, str(error)
content["answer"] = MetricRecord({"yes": found})
content["status"] = ConfigRecord({"problem": problem})
"""
# An answer in words, with the probability of the truth that epsilon 6 allows.
IN_WORDS = """
truth = len(data) > 0 and data[:, 1].mean() > 0.5
found = truth if rng.random() < CHANCE else not truth
content["answer"] = ConfigRecord({"vote": "yes" if found else "no"})
"""


# Noise in steps of 1, of a range of 140: the digits behind the point have none.
STEPS = """
rates = np.clip(np.nan_to_num(data), 40, 180)
mean = rates.mean() if len(rates) else 40.0
noise = rng.geometric(1 - np.exp(-1 / 140)) - rng.geometric(1 - np.exp(-1 / 140))
"""
SMALLEST = "kind = np.min_scalar_type(int(abs(data).max())) if len(data) else np.uint8\n"
# One record in ten, of whom the server knows which: epsilon 2, where a secret draw has 0.5.
DRAWN = """
taken = np.random.default_rng(1).random(len(data)) < 0.1
total = np.clip(np.nan_to_num(data), 0, 1)[taken].sum()
"""


def sent(numbers):
    return f'content["arrays"] = ArrayRecord({{"sent": Array({numbers})}})'


def app(load, train, **more):
    def indented(code):
        return "\n".join(f"    {line}" for line in code.strip().splitlines())

    client = CLIENT.replace("LOAD", indented(load)).replace("TRAIN", indented(train))
    return App(
        client=client,
        own_server=True,
        loader="client_app:load_rows",
        **{"rounds": 1, "delta": 1e-5, **more},
    )


OWN_DATA_FAULTY = {
    # The means are at most 2 apart; only data at both ends show more than epsilon 6.
    "noise_for_one_mean_not_four": app(
        PULSES, MEANS + sent("means + rng.normal(0, 1, size=4)"), claim=6.0
    ),
    "noise_before_clipping_of_targets": app(
        TARGETS_APART,
        f"x, y = data\n{FITTED}" + sent("clipped(coef + rng.normal(0, 9.7, size=5))"),
        claim=1.0,
    ),
    "noise_as_large_as_what_a_column_says": app(
        TARGETS_INSIDE,
        f"x, y = data[:, :-1], data[:, -1]\n{FITTED}"
        + sent("clipped(coef) * (1 + rng.normal(0, 4, size=3))"),
        claim=6.0,
    ),
    "text_of_a_range_check": app(
        AGES, SURVEY.replace("PROBLEM", 'f"age {age} not in 18 to 99"'), claim=1.1, delta=None
    ),
    "means_of_rows_from_a_comprehension": app(
        ONE_BY_ONE, sent("np.nan_to_num(data).sum(axis=0)"), claim=1.0
    ),
    "noise_in_whole_numbers_on_a_mean": app(
        PULSES, STEPS + sent("np.array([mean + noise])"), claim=1.0, delta=None
    ),
    "smallest_type_that_holds_all": app(
        COUNTS, SMALLEST + sent("rng.integers(0, 256, 16).astype(kind)"), delta=None
    ),
    "records_drawn_by_a_known_seed": app(
        VOTES,
        DRAWN + sent("np.array([total + rng.laplace(0, 0.5)])"),
        claim=0.5,
        delta=None,
        unit="record",
    ),
    "true_words": app(AGES, IN_WORDS.replace("CHANCE", "1"), claim=6.0, delta=None, runs=12_000),
}
OWN_DATA_HONEST = {
    "means_of_enough_noise": app(
        PULSES, MEANS + sent("means + rng.normal(0, 2 * 3.7304, size=4)"), claim=1.0
    ),
    "whole_numbers_of_a_mean": app(
        PULSES, STEPS + sent("np.array([np.round(mean) + noise])"), claim=1.02, delta=None
    ),
    "records_drawn_in_secret": app(
        VOTES,
        DRAWN.replace("np.random.default_rng(1)", "rng")
        + sent("np.array([total + rng.laplace(0, 0.5)])"),
        claim=0.51,
        delta=None,
        unit="record",
    ),
    "clipped_before_noise": app(
        TARGETS_APART,
        f"x, y = data\n{FITTED}" + sent("clipped(coef) + rng.normal(0, 2 * 3.7304, size=5)"),
        claim=1.0,
    ),
    "fixed_text_of_a_range_check": app(
        AGES, SURVEY.replace("PROBLEM", '"an age is not in 18 to 99"'), claim=1.1, delta=None
    ),
    "words_that_are_mostly_true": app(
        AGES, IN_WORDS.replace("CHANCE", "0.9975"), claim=6.0, delta=None
    ),
}
