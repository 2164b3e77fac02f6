"""Records of a folder: its index, and images."""

import numpy as np
import pytest
from PIL import Image

from ldp_flower.supernode.folders import images, records_in


def write(folder, text, **arrays):
    (folder / "index.csv").write_text(text)
    for name, array in arrays.items():
        np.save(folder / name, array)


def test_an_index_names_files_targets_and_owners(tmp_path):
    one, two = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    write(tmp_path, "file,target,owner\na.npy,1,007\nb.npy,0.5,eva\n", a=one, b=two)
    records, targets, owners = records_in(tmp_path, np.load)
    assert np.array_equal(records, [one, two]) and targets.tolist() == [1, 0.5]
    assert owners.tolist() == ["007", "eva"]
    write(tmp_path, "\ufefftarget,file\n2,b.npy\n")  # as spreadsheets write it
    records, targets = records_in(str(tmp_path), np.load)
    assert records.shape == (1, 2, 3) and targets.tolist() == [2]


def test_what_is_no_folder_of_records_is_refused_with_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"index\.csv"):
        records_in(tmp_path, np.load)
    for text in ("", "file,target\n", "name,target\na.npy,1\n"):
        write(tmp_path, text)
        with pytest.raises(ValueError, match="the columns file and target"):
            records_in(tmp_path, np.load)
    write(tmp_path, "file,target\na.npy,1\nb.npy,0\n", a=np.ones(3), b=np.ones(4))
    with pytest.raises(ValueError, match=r"got \[3\] in a\.npy and \[4\] in b\.npy"):
        records_in(tmp_path, np.load)


@pytest.mark.parametrize(
    ("mode", "pixels", "channels"),
    [
        ("L", np.uint8([[0, 51], [102, 255]]), 1),
        ("I;16", np.uint16([[0, 13107], [26214, 65535]]), 1),
        ("RGB", np.uint8([[[0] * 3, [51] * 3], [[102] * 3, [255] * 3]]), 3),
        ("RGBA", np.uint8([[[0] * 3 + [9], [51] * 3 + [9]], [[102, 102, 102, 9], [255] * 4]]), 3),
    ],
)
def test_images_are_brightness_by_channel(tmp_path, mode, pixels, channels):
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert Image.open(tmp_path / "a.png").mode == mode
    write(tmp_path, "file,target\na.png,3\n")
    records, targets = images(tmp_path)
    expected = np.broadcast_to(np.float32([[0, 0.2], [0.4, 1]]), (channels, 2, 2))
    np.testing.assert_allclose(records, expected[None], atol=1e-6)
    assert records.dtype == np.float32 and targets.tolist() == [3]
