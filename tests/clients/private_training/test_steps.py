"""DP-SGD's steps against a naive loop over records, and what may go wrong with a record."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from ldp_flower.audit.distinguish import log_ratio
from ldp_flower.clients.private_training import steps
from ldp_flower.clients.private_training.record_mod import RecordTraining, current, dp_sgd
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomness import KeyedRandom, derive

ROWS = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
LABELS = (ROWS[:, 0] > 0).long()
RECORDS = TensorDataset(ROWS, LABELS)


def net(hidden=4):
    torch.manual_seed(0)
    layers = torch.nn.Linear(5, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 2)
    return torch.nn.Sequential(*layers)


def cross_entropy(model, record):
    rows, labels = record
    return F.cross_entropy(model(rows), labels)


def training(model, plan=None, num_records=None, blind=False, seed=0):
    plan = plan or DpSgdPlan(1.0, 1e-5, 1, 3, 1.0, 0.5)
    sent = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    return RecordTraining(plan, sent, num_records, KeyedRandom(derive(seed)), blind)


def trained(task, model, dataset, loss=cross_entropy, optimizer=None):
    """Return what dp_sgd trains, by name."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.3)
    token = current.set(task)
    try:
        dp_sgd(model, optimizer, dataset, loss)
    finally:
        current.reset(token)
    return task.trained


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(steps, "with_noise", lambda sums, sigma, rng: sums)


def naive(model, records, plan, divisor, lr=0.3, loss=cross_entropy):
    """Return the parameters after plain steps, one record after the other."""
    for _ in range(plan.steps):
        total = [torch.zeros_like(parameter) for parameter in model.parameters()]
        for record in records:
            value = loss(model, [each[None] for each in record])
            gradient = torch.autograd.grad(value, list(model.parameters()))
            length = math.sqrt(sum(float((part**2).sum()) for part in gradient))
            for part, into in zip(gradient, total, strict=True):
                into += part * min(1.0, plan.max_grad_norm / length)
        with torch.no_grad():
            for parameter, into in zip(model.parameters(), total, strict=True):
                parameter -= lr * into / divisor
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def close(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("clip", [0.05, 0.5, 100.0])
@pytest.mark.parametrize("count", [None, 40, 25, 100])
def test_steps_are_those_of_a_naive_loop(noiseless, monkeypatch, clip, count):
    """Of more records than declared the first are used; sums are divided by the declared."""
    monkeypatch.setattr(steps, "_LARGEST_BLOCK", 34 * 7)  # seven records at a time
    plan = DpSgdPlan(1.0, 1e-5, 1, 3, 1.0, clip)
    found = trained(training(net(), plan, count), net(), RECORDS)
    records = [RECORDS[i] for i in range(min(count or 40, 40))]
    close(found, naive(net(), records, plan, count or 40))


def test_a_parameter_without_dimensions_is_one_too(noiseless):
    class Tempered(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.temperature = net(), torch.nn.Parameter(torch.tensor(2.0))

        def forward(self, rows):
            return self.layers(rows) / self.temperature

    task = training(Tempered())
    found = trained(task, Tempered(), RECORDS)
    close(found, naive(Tempered(), RECORDS, task.plan, 40))
    assert found["temperature"].shape == () and found["temperature"] != 2.0


def test_records_of_words_are_taken_one_by_one(noiseless):
    """Strings are no tensors."""

    class Named(Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return {"row": ROWS[index].view(5, 1), "name": f"patient {index}", "y": LABELS[index]}

    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cells, self.head = torch.nn.LSTM(1, 3), torch.nn.Linear(3, 2)

        def forward(self, rows):
            return self.head(self.cells(rows.transpose(0, 1))[0][-1])

    def loss(model, record):
        assert len(record["name"]) == 1
        return F.cross_entropy(model(record["row"]), record["y"])

    task = training(Recurrent())
    found = trained(task, Recurrent(), Named(), loss)
    records = [(ROWS[i].view(5, 1), LABELS[i]) for i in range(6)]
    close(found, naive(Recurrent(), records, task.plan, 6))


class Broken(Dataset):
    """Records one of which is bad."""

    def __init__(self, kind):
        self.kind = kind

    def __len__(self):
        return 10

    def __getitem__(self, index):
        row, label = ROWS[index].clone(), LABELS[index]
        if index == 4:
            match self.kind:
                case "raises":
                    raise ValueError("patient 4711")
                case "leaves":
                    raise SystemExit(4711)
                case "NaN":
                    row[2] = math.nan
                case "infinite":
                    row[:] = math.inf
                case "label":
                    label = torch.tensor(4711)
                case "shape":
                    row = torch.zeros(9)
                case "type":
                    row = row.double()
                case "nothing":
                    return None
        return row, label


@pytest.mark.parametrize(
    "kind", ["raises", "leaves", "NaN", "infinite", "label", "shape", "type", "nothing"]
)
def test_a_bad_record_counts_as_a_gradient_of_zero_and_changes_nobody_elses(noiseless, kind):
    task = training(net())
    found = trained(task, net(), Broken(kind))
    others = [RECORDS[i] for i in range(10) if i != 4]
    close(found, naive(net(), others, task.plan, 10))


class Given(Dataset):
    """Records as a function of their index makes them."""

    def __init__(self, record):
        self.record = record

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.record(index)


def test_a_record_moves_a_sum_by_its_bound_at_most(noiseless):
    """Whatever it is, and whatever it is exchanged for."""
    plan = DpSgdPlan(1.0, 1e-5, 1, 1, 1.0, 0.5)
    sums = []
    for scale in (0.0, 1e-30, 1.0, -1.0, 1e4, 1e19, 1e30, math.nan):
        rows = ROWS.clone()
        rows[7] *= scale
        found = trained(training(net(), plan, 1), net(), TensorDataset(rows[7:8], LABELS[7:8]))
        moved = [found[name] - tensor.numpy() for name, tensor in net().state_dict().items()]
        sums.append(np.concatenate([part.ravel() for part in moved]) / 0.3)
    assert all(np.linalg.norm(each) <= 0.5 * (1 + 1e-5) for each in sums)
    assert max(np.linalg.norm(each) for each in sums) > 0.49


def summed(monkeypatch, rows, bound=0.5):
    """Return the sum of what is left of gradients, of which each is a row."""
    found = []

    def without_noise(sums, sigma, rng):
        found.append(sums.copy())
        return sums

    monkeypatch.setattr(steps, "with_noise", without_noise)
    model = torch.nn.Linear(rows.shape[1], 1, bias=False)
    plan = DpSgdPlan(1.0, 1e-5, 1, 1, 1.0, bound)
    trained(training(model, plan), model, TensorDataset(rows), lambda m, r: m(r[0]).sum())
    return found[0]


def test_a_long_gradients_length_is_not_lost_in_small_entries(monkeypatch):
    """Each of them is too small to be seen beside the few large ones, in numbers of four bytes."""
    row = torch.full((1, 1 << 20), 2**-12.01)
    row[0, :128] = 1.0
    length = np.linalg.norm(summed(monkeypatch, 100 * row))
    assert 0.4999 < length <= 0.5


@pytest.mark.parametrize("place", [0, 1000, 1999])
def test_a_record_among_many_moves_a_sum_by_its_bound_at_most(monkeypatch, place):
    """It moves how the others' sum is rounded, too, at each further record."""
    generator = torch.Generator().manual_seed(place)
    rows = torch.randn(1, 20, generator=generator) * (torch.rand(2000, 1, generator=generator) + 1)
    others = rows.clone()
    others[place] *= -1
    moved = np.linalg.norm(summed(monkeypatch, rows) - summed(monkeypatch, others))
    assert 0.9999 < moved <= 1.0


@pytest.mark.parametrize("length", [1e30, 1e-30])
def test_sums_are_finite_at_the_largest_lengths_and_the_smallest(length):
    plan = DpSgdPlan(1.0, 1e-5, 1, 1, 1.0, length)
    data = TensorDataset(torch.full((40, 5), 1e19))
    optimizer = torch.optim.SGD((model := net()).parameters(), lr=1.0)
    found = trained(training(net(), plan), model, data, lambda m, r: m(r[0]).sum(), optimizer)
    assert all(np.isfinite(array).all() for array in found.values())


@pytest.mark.parametrize("first", ["flu", "rare"])
def test_no_value_of_the_first_record_decides_whether_training_is_refused(first):
    """A text cannot be made zero, as numbers are for trying the loss out."""
    known = {"flu": 1.0}
    data = Given(lambda i: (ROWS[i], first if i == 0 else "flu"))
    task = training(net())
    assert trained(task, net(), data, lambda m, r: m(r[0]).sum() * known[r[1][0]])


def test_a_loss_that_fails_at_noisy_parameters_fails_nothing():
    """An error leaves without a spend, and would tell what noisy steps have made of the data."""
    model = torch.nn.Linear(5, 1, bias=False)
    start = model.weight.detach().clone()

    def of_the_start(model, record):
        if (model.weight != start).any():
            raise ValueError("the weights have moved")
        return model(record[0]).sum()

    found = trained(training(model), model, RECORDS, of_the_start)
    assert np.isfinite(found["weight"]).all() and (found["weight"] != start.numpy()).any()


def test_an_optimiser_finds_noisy_gradients_only():
    found = []

    class Curious(torch.optim.SGD):
        def step(self, closure=None):
            for parameter in self.param_groups[0]["params"]:
                tensors = {k for k, v in vars(parameter).items() if v is not None}
                found.append((tensors, parameter.grad is not None))

    model = net()
    trained(training(net()), model, RECORDS, optimizer=Curious(model.parameters()))
    assert found == [(set(), True)] * 4 * 3


def test_noise_has_the_size_that_the_plan_says_and_steps_add_up():
    """Nobody is drawn, as in a rehearsal: 4,000 normals of a known variance, p > 1e-6."""
    model = torch.nn.Linear(4000, 1, bias=False)
    plan = DpSgdPlan(1.0, 1e-5, 5, 4, 0.1, 2.0)
    before = model.weight.detach().numpy().copy()
    task = training(model, plan, 30, blind=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    data = TensorDataset(torch.full((30, 4000), 1e6))
    found = trained(task, model, data, lambda m, r: m(r[0]).sum(), optimizer)
    moved = (found["weight"] - before).ravel()
    sigma = 0.5 * plan.noise_multiplier * 2.0 * math.sqrt(4) / (0.1 * 30)
    assert abs((moved**2).mean() / sigma**2 - 1) < 4.9 * math.sqrt(2 / 4000)
    assert abs(moved.mean()) < 4.9 * sigma / math.sqrt(4000)


def drawn(rate, seed):
    """Return who was drawn, shape (steps, 2,000): each record has a coordinate of its own."""
    who = []

    class OneHot(Dataset):
        def __len__(self):
            return 2000

        def __getitem__(self, index):
            return torch.tensor(index)

    def loss(model, record):
        return model(record).sum()

    model = torch.nn.Embedding(2000, 1)
    task = training(model, DpSgdPlan(1.0, 1e-5, 1, 5, rate, 1.0), seed=seed)

    class Watched(torch.optim.SGD):
        def step(self, closure=None):
            who.append(self.param_groups[0]["params"][0].grad[:, 0].numpy() != 0)

    trained(task, model, OneHot(), loss, Watched(model.parameters(), lr=1.0))
    return np.array(who)


def test_records_are_drawn_each_by_itself(noiseless):
    """Each of 10,000 draws with the plan's probability, and steps independent: p > 1e-6."""
    found = drawn(0.3, seed=0)
    assert abs(found.mean() - 0.3) < 4.9 * math.sqrt(0.21 / 10_000)
    both = (found[1:] & found[:-1]).mean()
    assert abs(both - 0.09) < 4.9 * math.sqrt(0.09 * 0.91 * 3 / 8000)
    assert (drawn(0.3, seed=1) != found).any() and (drawn(0.3, seed=0) == found).all()


def canaries(noise=1.0):
    """Return scores of 3,000 canaries from one training, of two kinds by turns.

    Each record is a coordinate up or down, at the whole length of a gradient: what differs
    most where a record is exchanged. Noise is independent over coordinates, so that one
    training is 3,000 independent tries.
    """
    number, plan = 3000, DpSgdPlan(4.0, 1e-5, 2, 2, 0.5, 1.0)

    class Canaries(Dataset):
        def __len__(self):
            return number

        def __getitem__(self, index):
            return torch.tensor(index), torch.tensor(1.0 - 2.0 * (index % 2))

    def loss(model, record):
        index, sign = record
        return (sign[:, None] * model(index)).sum()

    model = torch.nn.Embedding(number, 1)
    torch.nn.init.zeros_(model.weight)
    for round_number in range(plan.num_rounds):
        task = training(model, plan, seed=round_number)
        trained(task, model, Canaries(), loss, torch.optim.SGD(model.parameters(), lr=1.0))
    return -model.weight.detach().numpy()[:, 0]


def measured(scores):
    """Return a lower bound on epsilon at delta 1e-5, with 99.9 % confidence over 40 cuts."""
    ups, downs = scores[::2], scores[1::2]
    cuts = np.quantile(scores, np.linspace(0.3, 0.99, 40))
    hits = [((ups > cut).sum(), (downs > cut).sum()) for cut in cuts]
    first, second = np.array(hits).T
    return log_ratio(first, len(ups), second, len(downs), 1e-5, 0.001 / 40).max()


def test_an_audit_by_canaries_stays_below_the_claim_and_finds_missing_noise(monkeypatch):
    found = measured(canaries())
    assert 0.7 < found < 4.0
    honest = steps.with_noise
    monkeypatch.setattr(steps, "with_noise", lambda sums, sigma, rng: honest(sums, sigma / 5, rng))
    assert measured(canaries()) > 4.0


# ------------------------------------------------------------------ what does not fit


def test_a_batch_norm_in_training_is_refused_and_a_frozen_one_stays(noiseless):
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
    with pytest.raises(ValueError, match="Expected no BatchNorm1d in training, got '0'"):
        trained(training(model), model, RECORDS)
    model[0].eval().requires_grad_(False)
    task = training(model)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = trained(task, model, RECORDS)
    assert set(found) == {"1.weight", "1.bias"}
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("0.")


def test_only_what_the_optimiser_holds_is_trained_and_tied_weights_are_one(noiseless):
    model = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Tanh(), torch.nn.Linear(5, 5))
    model[2].weight = model[0].weight
    task = training(model)
    optimizer = torch.optim.SGD([model[0].weight], lr=0.3)
    found = trained(task, model, RECORDS, optimizer=optimizer)
    assert set(found) == {"0.weight", "2.weight"}
    assert (found["0.weight"] == found["2.weight"]).all()


def stale(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    cross_entropy(model, (ROWS, LABELS)).backward()
    optimizer.step()
    return optimizer


class Stream(IterableDataset):
    def __iter__(self):
        return iter(RECORDS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": DataLoader(RECORDS)}, "Expected a dataset .* not batches, got DataLoader"),
        ({"dataset": Stream()}, "Expected a dataset with a length and items"),
        ({"loss": lambda model: 0}, "Expected loss.model, record. to work for a record of zeros"),
        ({"loss": lambda model, record: 0.5}, "Expected loss to return one number"),
        (
            {"loss": lambda model, record: model(record[0])},
            r"one number for a record, got \[1, 2\]",
        ),
        ({"loss": lambda model, record: record[0].sum()}, "record of zeros"),
        ({"optimizer": stale}, "Expected a new optimizer, got one that has taken steps"),
        (
            {"optimizer": lambda model: torch.optim.SGD(net().parameters(), lr=1.0)},
            "Expected an optimizer of parameters of the model that the message holds",
        ),
        (
            {
                "optimizer": lambda m: torch.optim.SGD(
                    [p.requires_grad_(False) for p in m.parameters()]
                )
            },
            "Expected an optimizer of parameters with requires_grad, got none",
        ),
        ({"model": torch.nn.Linear(5, 2)}, r"Expected the message's names .*, got \['0.weight'"),
        (
            {"model": net(hidden=3)},
            "Expected a model of the message's shapes",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_trained(change, message):
    task, model = training(net()), change.get("model") or net()
    optimizer = change.get("optimizer", lambda m: torch.optim.SGD(m.parameters(), lr=0.1))(model)
    with pytest.raises(ValueError, match=message):
        trained(
            task,
            model,
            change.get("dataset", RECORDS),
            change.get("loss", cross_entropy),
            optimizer,
        )
    assert task.trained is None


@pytest.mark.parametrize("kind", ["Adam", "Adagrad", "RMSprop", "AdamW"])
def test_other_optimisers_step_too(kind):
    model = net()
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.01)
    found = trained(training(net()), model, RECORDS, optimizer=optimizer)
    assert all(np.isfinite(array).all() for array in found.values())
    assert not np.array_equal(found["0.weight"], net().state_dict()["0.weight"].numpy())


def test_nobody_trains_without_the_mod_or_twice():
    with pytest.raises(RuntimeError, match="Expected dp_sgd to be called by the train function"):
        dp_sgd(net(), None, RECORDS, cross_entropy)
    task = training(net())
    first = trained(task, net(), RECORDS)
    with pytest.raises(RuntimeError, match="Expected one call of dp_sgd for one message"):
        trained(task, net(), RECORDS)
    assert task.trained is first


def test_drop_out_leaves_pytorchs_generator_as_it_was():
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(5, 2))
    torch.manual_seed(3)
    before = torch.get_rng_state()
    task = training(model)
    trained(task, model, RECORDS)
    assert torch.equal(torch.get_rng_state(), before)
