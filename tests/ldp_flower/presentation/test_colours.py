"""Colours of charts can be seen and told apart, also by people who do not see all colours."""

from itertools import combinations

import numpy as np
import pytest

from ldp_flower.presentation.charts import COLOURS
from ldp_flower.presentation.page import DARK, PAPER

# What people see, in linear RGB, who lack the cones for red, green or blue: Machado, Oliveira &
# Fernandes, "A physiologically-based model for simulation of color vision deficiency" (2009).
SEEN = {
    "all": np.eye(3),
    "no red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = XYZ.sum(axis=1)
LEAST_CONTRAST = 3.0  # of graphics, by the Web Content Accessibility Guidelines 2.1, 1.4.11
LEAST_DISTANCE = 20.0  # in CIELAB, where 2.3 can just be noticed


def linear(colour):
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(colour, seen):
    part = XYZ @ np.clip(np.array(seen) @ linear(colour), 0, 1) / WHITE
    x, y, z = np.where(part > 0.008856, np.cbrt(part), 7.787 * part + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_colours_stand_out_from_the_page():
    for colour in COLOURS.values():
        assert min(contrast(colour, PAPER["light"]), contrast(colour, "#000000")) >= LEAST_CONTRAST
    for colour in DARK.values():
        assert contrast(colour, PAPER["dark"]) >= LEAST_CONTRAST


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
@pytest.mark.parametrize("colours", [COLOURS, DARK], ids=["light", "dark"])
def test_any_two_colours_are_told_apart(colours, seen):
    for one, other in combinations(colours.values(), 2):
        assert np.linalg.norm(lab(one, seen) - lab(other, seen)) >= LEAST_DISTANCE


def test_both_modes_have_the_same_colours():
    assert set(COLOURS) == set(DARK)
