"""One record never touches another: with any other in its place, all else keeps its bits."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from ldp_flower.clients.private_training.gradients import Gradients
from ldp_flower.clients.private_training.steps import clipped_sums

COUNT, BLOCK, ODD = 24, 16, 7
DRAWN = [np.array([3, 11, ODD, 20, 5, 1, 16]), np.array([ODD, 2]), np.r_[8:23, ODD]]


class Records(Dataset):
    """Records of which one may be another, or none."""

    def __init__(self, rows, labels, odd=None):
        self.rows, self.labels, self.odd = rows, labels, odd

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        if index == ODD and self.odd is not None:
            return self.odd(self.rows[index].clone(), self.labels[index].clone())
        return self.rows[index], self.labels[index]


def leaves(*_):
    raise SystemExit(4711)


def raises(*_):
    raise ValueError("patient 4711")


def draws(x, y):
    torch.rand(4711)
    return x, y


def channels_last(x, y):
    """Return it with its numbers in another order of memory, as a transposed image has them."""
    return torch.empty_strided(x.shape, [*np.cumprod([1, *x.shape[:-1]]).tolist()]).copy_(x), y


ODD_ONES = {
    "another": lambda x, y: (x.roll(1, 0) if x.dtype == torch.int64 else -3.3 * x + 1, 1 - y),
    "label": lambda x, y: (x, torch.tensor(4711)),
    "negative label": lambda x, y: (x, torch.tensor(-1)),
    "ignored label": lambda x, y: (x, torch.tensor(-100)),
    "shape": lambda x, y: (x[..., :-1], y),
    "type": lambda x, y: (x.double(), y),
    "text": lambda x, y: ("patient 4711", y),
    "nothing": lambda x, y: None,
    "structure": lambda x, y: {"x": x, "y": y},
    "more": lambda x, y: (x, y, y),
    "sparse": lambda x, y: (x.to_sparse(), y),
    "gradient": lambda x, y: ((x if x.is_floating_point() else x.double()).requires_grad_(), y),
    "layout": channels_last,
    "draws": draws,
    "raises": raises,
    "leaves": leaves,
}
ODD_NUMBERS = {
    "zero": 0.0,
    "largest": 3e38,
    "huge": 1e30,
    "subnormal": 1e-42,
    "NaN": math.nan,
    "infinite": math.inf,
    "minus infinity": -math.inf,
}
ODD_WORDS = {"word": 4711, "negative word": -1, "far word": 1 << 40}


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(3, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(50, 12), nn.Linear(12, 2)

    def forward(self, x):
        return self.head(self.table(x).mean(1))


class ScaledWords(Words):
    """The table follows from the record: under vmap a word too far is one of the next record's."""

    def forward(self, x):
        return self.head(F.embedding(x, self.table.weight * x.double().mean().float()).mean(1))


NETS = {
    "MLP": (lambda: nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 2)), (20,)),
    "LeNet": (
        lambda: nn.Sequential(
            *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(400, 84), nn.ReLU(), nn.Linear(84, 2)),
        ),
        (1, 28, 28),
    ),
    "GroupNorm": (
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.GELU()),
            *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32, 2)),
        ),
        (3, 9, 9),
    ),
    "LSTM": (Sequences, (6, 3)),
    "words": (Words, None),
    "scaled words": (ScaledWords, None),
}


def cross_entropy(model, record):
    return F.cross_entropy(model(record[0]), record[1])


def amplified(model, gain):
    """Make what a hidden unit adds up large, so that a last bit decides whether it is on."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.zero_()
            else:
                parameter -= parameter.flatten(1).mean(1).view(-1, *[1] * (parameter.dim() - 1))
                parameter *= gain
    return model


def made(kind, gain=1.0):
    torch.manual_seed(0)
    build, shape = NETS[kind]
    model = amplified(build(), gain)
    generator = torch.Generator().manual_seed(1)
    rows = (
        torch.randint(50, (COUNT, 9), generator=generator)
        if shape is None
        else torch.randn(COUNT, *shape, generator=generator).sign()  # sums of 0 up to a last bit
    )
    return model, rows, torch.randint(2, (COUNT,), generator=generator)


def gradients_of(model, dataset, loss=cross_entropy):
    """Return how those drawn have gradients as the steps see them, shape (block, parameters)."""
    seeds = torch.Generator()
    of = Gradients(model, loss, dataset, dict(model.named_parameters()), BLOCK, seeds)
    kept = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    def gradients(drawn):
        seeds.manual_seed(2)
        found, used = of.of(kept, drawn)
        assert all(len(each) == BLOCK for each in found.values())
        whole = torch.cat([each.flatten(1) for each in found.values()], 1)
        _, counted = clipped_sums(found, used, 1.0)
        return whole.masked_fill(~counted[:, None], 0.0)

    return gradients


def gradients(model, dataset, drawn, loss=cross_entropy):
    return gradients_of(model, dataset, loss)(drawn)


def clipped_sum(each, but=-1):
    """Return the sum of gradients of length 1 at most, but for one of them."""
    return clipped_sums({"all": each}, torch.arange(len(each)) != but, 1.0)[0]["all"]


def same_bits(first, second):
    return torch.equal(first.view(torch.int32), second.view(torch.int32))


def odd_ones(rows):
    yield from ODD_ONES.items()
    if rows.is_floating_point():
        numbers, one = ODD_NUMBERS, torch.full_like
        for name, number in numbers.items():
            yield name, lambda x, y, number=number: (one(x, number), y)
            yield (
                f"one {name}",
                lambda x, y, number=number: (
                    one(x, 1.0).index_put_(
                        tuple(torch.tensor([0]) for _ in x.shape), torch.tensor(number)
                    ),
                    y,
                ),
            )
    else:
        for name, word in ODD_WORDS.items():
            yield (
                name,
                lambda x, y, word=word: (
                    x.clone().index_put_((torch.tensor([2]),), torch.tensor(word)),
                    y,
                ),
            )


@pytest.mark.parametrize("gain", [1.0, 1e3], ids=["usual", "amplified"])
@pytest.mark.parametrize("kind", NETS)
def test_all_other_gradients_keep_their_bits(kind, gain):
    """Whatever one record is, with any others drawn, in any place; their sum moves by 2 at most."""
    model, rows, labels = made(kind, gain)
    records = Records(rows, labels)
    gradients = gradients_of(model, records)
    changed = 0
    for drawn in DRAWN:
        records.odd = None
        before = gradients(drawn)
        place = drawn.tolist().index(ODD)
        others = [i for i in range(BLOCK) if i != place]
        whole, rest = clipped_sum(before), clipped_sum(before, place)
        assert not before[len(drawn) :].any()
        assert gain > 1 or before[: len(drawn)].any(1).all()  # else some are saturated
        for name, odd in odd_ones(rows):
            records.odd = odd
            after = gradients(drawn)
            assert same_bits(before[others], after[others]), name
            assert torch.equal(rest, clipped_sum(after, place)), name
            assert after.isfinite().all(), name
            assert (clipped_sum(after) - whole).norm() <= 2, name
            changed += not same_bits(before[place], after[place])
    # Not all odd ones are without effect, though amplified ones may be saturated.
    assert changed > len(DRAWN) * (1 if gain > 1 else 6)


@pytest.mark.parametrize("kind", NETS)
def test_a_gradient_does_not_depend_on_who_else_is_drawn(kind):
    model, rows, labels = made(kind)
    model.eval()  # what drop-out drops follows from the place
    for drawn in (DRAWN[0], DRAWN[0][2:]):
        others = np.array([i if i == ODD else (i + 4) % COUNT for i in drawn])
        place = drawn.tolist().index(ODD)
        found = [gradients(model, Records(rows, labels), d)[place] for d in (drawn, others)]
        assert same_bits(*found) and found[0].any()


@pytest.mark.parametrize("kind", ["MLP", "words", "LSTM"])
def test_gradients_are_those_of_records_alone(kind):
    model, rows, labels = made(kind)
    drawn = DRAWN[0]
    found = gradients(model, Records(rows, labels), drawn)
    for place, i in enumerate(drawn):
        value = cross_entropy(model, (rows[i : i + 1], labels[i : i + 1]))
        alone = torch.autograd.grad(value, list(model.parameters()))
        expected = torch.cat([part.flatten() for part in alone])
        torch.testing.assert_close(found[place], expected, rtol=1e-4, atol=1e-6)


def test_an_index_into_another_record_is_never_computed_at_once():
    """index_fill writes into the next record's tensor under vmap, where the index is too large."""

    def filling(model, record):
        rows, labels = record
        return F.cross_entropy(model(rows.index_fill(1, labels % 1000, 3.0)), labels % 2)

    model, rows, labels = made("MLP")
    drawn = np.arange(COUNT)[:BLOCK]
    before = gradients(model, Records(rows, labels), drawn, filling)
    odd = Records(rows, labels, lambda x, y: (x, torch.tensor(25)))  # of 20 places
    after = gradients(model, odd, drawn, filling)
    others = drawn != ODD
    assert same_bits(before[others], after[others]) and not after[ODD].any()


def test_a_loss_that_mixes_a_batch_sees_one_record():
    """A mean over the batch is that of the record, so gradients are nobody else's affair."""

    def mixing(model, record):
        rows, labels = record
        return F.cross_entropy(model(rows - rows.mean(0)), labels)

    model, rows, labels = made("MLP")
    moved = rows + 50.0 * (torch.arange(COUNT) > 0)[:, None]
    first, second = (
        gradients(model, Records(x, labels), np.arange(BLOCK), mixing)[0] for x in (rows, moved)
    )
    assert same_bits(first, second)


class Given(Dataset):
    """Records as a function of their index makes them."""

    def __init__(self, record):
        self.record = record

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.record(index)


def test_records_that_vmap_does_not_take_are_one_by_one_whatever_they_hold(caplog):
    """Texts here: the first record's form decides, which is public."""
    model, rows, labels = made("MLP")
    known = {f"ward {i}": 1.0 + i for i in range(8)}

    def loss(model, record):
        return cross_entropy(model, record) * known[record[2][0]]

    usual = Given(lambda i: (rows[i], labels[i], f"ward {i}"))
    before = gradients(model, usual, np.arange(8), loss)
    others = [i for i in range(BLOCK) if i != ODD]
    for odd in (None, (rows[0], labels[0], "patient 4711"), (rows[0], labels[0], 7)):
        data = Given(lambda i, odd=odd: odd if i == ODD else usual[i])
        after = gradients(model, data, np.arange(8), loss)
        assert same_bits(before[others], after[others]) and not after[ODD].any()
        assert before[:8].any(1).all()
    assert "Records are processed one by one, which is slower" in caplog.text


def test_the_first_records_form_is_that_of_all():
    model, rows, labels = made("MLP")
    data = Given(lambda i: (rows[i][: 20 - (i > 3)], labels[i]))
    assert gradients(model, data, np.arange(8)).any(1).tolist() == [True] * 4 + [False] * 12


def test_a_first_record_that_cannot_be_read_costs_itself_only():
    model, rows, labels = made("MLP")
    data = Given(lambda i: (rows[i], labels[i]) if i else raises())
    assert (
        gradients(model, data, np.arange(8)).any(1).tolist() == [False] + [True] * 7 + [False] * 8
    )


def test_the_operators_interrupt_passes():
    def interrupted(i):
        if i == 5:
            raise KeyboardInterrupt
        return rows[i], labels[i]

    model, rows, labels = made("MLP")
    with pytest.raises(KeyboardInterrupt):
        gradients(model, Given(interrupted), np.arange(8))
