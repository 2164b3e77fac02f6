"""Loaders of the papers' data: small files in their formats, and files that are something else."""

import bz2

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


def libsvm(path, features, targets):
    """Write records as libsvm's files have them: columns from 1, what is not 0."""
    lines = [
        " ".join([f"{y:g}", *(f"{column + 1}:{row[column]:g}" for column in np.flatnonzero(row))])
        for row, y in zip(features, targets, strict=True)
    ]
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(bz2.compress(text) if path.suffix == ".bz2" else text)
    return path


def sparse_stand_in(data, targets, seed=0):
    rng = np.random.default_rng(seed)
    features = np.zeros((len(targets), data.num_features))
    for row in features:
        row[rng.choice(data.num_features, 5, replace=False)] = rng.integers(1, 9, 5)
    return features, np.asarray(targets, float)


@pytest.mark.parametrize("suffix", ["", ".bz2"])
@pytest.mark.parametrize(
    ("name", "shape", "targets"),
    [
        ("COVERTYPE", 54, [2, 7, 1]),
        ("RCV1", 47_236, [-1, 1, 1]),
        ("E2006", 150_360, [-3.5, -4.25, 0.5]),
    ],
)
def test_sparse_records_are_as_their_file_has_them(name, shape, targets, suffix, tmp_path):
    from simulations.harness import paper_data

    data = getattr(paper_data, name)
    features, targets = sparse_stand_in(data, targets)
    found, read = data.load(libsvm(tmp_path / f"data{suffix}", features, targets))
    assert found.shape == (3, shape)
    np.testing.assert_array_equal(found.toarray(), features)
    np.testing.assert_array_equal(read, targets)


@pytest.mark.parametrize(
    ("name", "text", "got"),
    [
        ("COVERTYPE", "2 1:5\n8 1:5\n", "the target 8"),  # classes are 1 to 7
        ("COVERTYPE", "2 55:1\n", "55 features"),  # another data set
        ("COVERTYPE", "2596,51,3\n", "2596,51,3"),  # the other format of the same data
        ("COVERTYPE", "", "no record"),
        ("COVERTYPE", "2 0:1\n", "Invalid index 0"),  # columns counted from 0
        ("RCV1", "2 1:.5\n", "the target 2"),
        ("E2006", "nan 1:.5\n", "the target nan"),
        ("E2006", None, "No such file"),
    ],
)
def test_what_is_something_else_is_refused_by_name(name, text, got, tmp_path):
    from simulations.harness import paper_data

    data, path = getattr(paper_data, name), tmp_path / "file.svm"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=rf"^Expected {data.name} in .*file\.svm: ") as refused:
        data.load(path)
    said = str(refused.value)
    assert got in said and data.described_by in said and "http" not in said
    assert f"columns 1 to {data.num_features:,}" in said


def test_a_file_that_was_cut_off_is_refused(tmp_path):
    from simulations.harness.paper_data import RCV1

    path = libsvm(tmp_path / "cut.bz2", *sparse_stand_in(RCV1, [1.0] * 50))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"Expected RCV1 in .*cut\.bz2"):
        RCV1.load(path)


def test_users_records_are_as_the_published_code_reads_them(tmp_path):
    from simulations.harness.paper_data import USER_DATA

    assert list(USER_DATA) == ["Airline", "Loan", "MIP", "Taxi", "Wine", "Yolanda"]
    rng = np.random.default_rng(0)
    for data in USER_DATA.values():
        owners = rng.permutation(np.repeat([4, 9, 30], 5))
        y, x = rng.standard_normal(15), rng.standard_normal((15, 3))
        np.savetxt(tmp_path / data.file, np.column_stack([y, x, owners]), delimiter=",")
        users = data.load(tmp_path)
        assert users.num_rows.tolist() == [5, 5, 5]
        np.testing.assert_array_equal(users.features[5:10], x[owners == 9])
        np.testing.assert_array_equal(users.targets[5:10], y[owners == 9])


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("y,a,user\n1,2,3\n", "could not convert"),  # names of columns
        ("1,2\n3,4\n", "2 columns"),
        ("1,nan,3\n", "not finite"),
        ("1,2,3.5\n", "the user 3.5"),
        ("1,2,3\n1,2\n", "column"),
        (None, "not found"),
    ],
)
def test_a_table_that_is_something_else_is_refused_by_name(text, got, tmp_path):
    from simulations.harness.paper_data import USER_DATA

    if text is not None:
        (tmp_path / "taxi.csv").write_text(text)
    with pytest.raises(ValueError, match=r"^Expected Taxi in .*taxi\.csv: rows of a") as refused:
        USER_DATA["Taxi"].load(tmp_path)
    assert got in str(refused.value) and "appendix E.3" in str(refused.value)
