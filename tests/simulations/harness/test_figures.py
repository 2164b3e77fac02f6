"""The legend that several panels share."""

import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.mark.parametrize("columns", [1, 3])
def test_the_picture_is_as_large_as_its_legend_and_panels(columns, tmp_path):
    from simulations.harness.figures import legend_below, plt, save

    labels = [f"a method with a long name, number {i}" for i in range(9)]
    figure, panels = plt.subplots(1, columns, figsize=(4 * columns, 3), squeeze=False)
    for axes in panels.flat:
        for label in labels:
            axes.plot([0, 1], [0, 1], label=label)
    legend_below(figure, [*labels, "without a curve"])
    save(figure, tmp_path / "figure.png")
    height, width, _ = plt.imread(tmp_path / "figure.png").shape
    legend = figure.legends[0].get_window_extent()
    inches = width / 110, height / 110
    assert inches[0] >= legend.width / figure.dpi
    assert inches[1] >= (legend.height + panels[0, 0].get_window_extent().height) / figure.dpi
    assert legend.y1 <= min(axes.get_tightbbox().y0 for axes in panels.flat)
    assert len(figure.legends[0].get_texts()) == 9
