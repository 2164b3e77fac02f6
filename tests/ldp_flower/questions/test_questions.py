"""Questions: one form on the wire each, pinned here, and nothing else is built from it."""

import numpy as np
import pytest

from ldp_flower.guarantee.messages import HASH_END, Query
from ldp_flower.questions import (
    SELECTORS,
    WIRE_TYPES,
    BinShares,
    Cell,
    CellShares,
    ClassCoefficients,
    ClassMoves,
    ClassShare,
    ClassStep,
    ClippedUpdate,
    ColumnLogSizes,
    ColumnMeanNorm,
    ColumnMeans,
    CorrelatedFeatures,
    CorrelationSpread,
    Curvature,
    DistanceBin,
    DistanceOctave,
    DrawnItems,
    DrawnLabels,
    ErrorPair,
    Fourier,
    FrequentItems,
    Gradient,
    Grain,
    GrainShares,
    ItemShares,
    Labels,
    LassoFeatures,
    LevelRounding,
    LocalCoefficients,
    LossMoments,
    Mean,
    MeanAndSquares,
    MeanScore,
    MessageError,
    Moments,
    NetworkGradient,
    NetworkScore,
    NormalEquations,
    NormalisedUpdate,
    OctaveShares,
    OfClasses,
    OutstandingFeatures,
    PostLassoFeatures,
    Products,
    Projected,
    PursuedFeatures,
    Question,
    Ranking,
    RankingCurve,
    Record,
    RecordCopies,
    ResidualCoefficients,
    ResidualOctave,
    ResidualSquares,
    RidgeMove,
    RidgeShift,
    RidgeShiftOctave,
    RidgeStep,
    RootCurvature,
    Rotated,
    RotatedBins,
    RowCount,
    ScoreOctave,
    ScoreShares,
    SecondMoments,
    SharesBelow,
    Shortened,
    SquaredErrors,
    Squares,
    Standardised,
    TableCell,
    TargetScaleBin,
    Teacher,
    TensorMoments,
    TransformedQuestion,
    WeightedMean,
    question_from_wire,
)
from ldp_flower.randomizers import SubsetHypercube

A, B, C = np.array([0.5, -1.0]), np.array([2.0, 3.0]), np.array([4.0, 5.0])
SOME = np.array([1, 0])
NORM = {"centre": 0.5, "log_range": 2.0}
BINS = {"smallest": 0.25, "per_octave": 2.0, "num_bins": 40.0}
BOUNDS = {"feature_bound": 1.5, "target_bound": 2.5}
# Each class once without and once with what is optional: its name, arrays and numbers.
PLAIN = [
    (Gradient(A), "gradient", {"theta": A}, {}),
    (
        Gradient(A, SOME, B, 1.5, 2.5, 3.5, link="logistic"),
        "logistic_gradient",
        {"theta": A, "coordinates": SOME, "centre": B},
        {"feature_bound": 1.5, "row_bound": 2.5, "residual_bound": 3.5},
    ),
    (Gradient(A, link="cosine"), "cosine_gradient", {"theta": A}, {}),
    (
        Gradient(A, feature_centre=B, offset=-0.5, constant=1.5),
        "gradient",
        {"theta": A, "feature_centre": B, "offset": np.array([-0.5])},
        {"constant": 1.5},
    ),
    (
        ResidualOctave(A, -0.5),
        "residual_octave",
        {"theta": A, "offset": np.array([-0.5])},
        {},
    ),
    *(
        (
            ResidualOctave(A, -0.5, link),
            f"{link}_residual_octave",
            {"theta": A, "offset": np.array([-0.5])},
            {},
        )
        for link in ("logistic", "cosine")
    ),
    (DistanceOctave(A), "distance_octave", {"centre": A}, {}),
    (Squares(A), "squares", {"centre": A}, {}),
    (Squares(A, SOME), "squares", {"centre": A, "coordinates": SOME}, {}),
    *(
        (
            ResidualSquares(A, -0.5, 0.25, 1.5, 2.5, link),
            name,
            {"theta": A, "offset": np.array([-0.5]), "constant": np.array([0.25])},
            {"bound": 1.5, "constant_bound": 2.5},
        )
        for link, name in (
            ("identity", "residual_squares"),
            ("logistic", "logistic_residual_squares"),
            ("cosine", "cosine_residual_squares"),
        )
    ),
    (Curvature(A, 8.0), "curvature", {"direction": A}, {"cap": 8.0}),
    (RootCurvature(A, 0.5, 2.0), "root_curvature", {"direction": A}, NORM),
    (
        ResidualCoefficients(A, B, 0.5),
        "residual_coefficients",
        {"theta": A, "weights": B},
        {"ridge": 0.5},
    ),
    (
        ResidualCoefficients(A, B, 0.5, SOME, 1.5, 2.5),
        "residual_coefficients",
        {"theta": A, "weights": B, "coordinates": SOME},
        {"ridge": 0.5, "scale": 1.5, "scale_weight": 2.5},
    ),
    (
        LocalCoefficients(A, -0.5, 0.25, 1.5),
        "local_coefficients",
        {"theta": A, "offset": np.array([-0.5])},
        {"ridge": 0.25, "constant": 1.5},
    ),
    (
        LocalCoefficients(A, -0.5, 0.25, 1.5, SOME),
        "local_coefficients",
        {"theta": A, "offset": np.array([-0.5]), "coordinates": SOME},
        {"ridge": 0.25, "constant": 1.5},
    ),
    *(
        (
            kind(A, 0.5, 1.0, -0.5, 2.0),
            name,
            {"theta": A, "centre": np.array([-0.5])},
            {"ridge": 0.5, "residual_bound": 1.0, "scale": 2.0},
        )
        for kind, name in ((RidgeShift, "ridge_shift"), (RidgeShiftOctave, "ridge_shift_octave"))
    ),
    (
        ScoreOctave(A, -0.5),
        "score_octave",
        {"direction": A, "offset": np.array([-0.5])},
        {},
    ),
    (RowCount(0.5, 2.0), "row_count", {}, NORM),
    (
        RidgeStep(A, 0.5, 1.0, -0.5, 2.0),
        "ridge_step",
        {"theta": A, "centre": np.array([-0.5])},
        {"ridge": 0.5, "residual_bound": 1.0, "scale": 2.0},
    ),
    (
        ClassCoefficients(A, B, 0.5, SOME),
        "class_coefficients",
        {"theta": A, "weights": B, "coordinates": SOME},
        {"ridge": 0.5},
    ),
    (
        ClassStep(A, 0.5, 2.0, 3, weighted=True),
        "class_step",
        {"theta": A, "place": np.array([2.0])},
        {"ridge": 0.5, "num_classes": 3.0, "weighted": 1.0},
    ),
    (ClassShare(0.0, 3), "class_share", {"place": np.zeros(1)}, {"num_classes": 3.0}),
    (MeanScore(A), "mean_score", {"theta": A}, {}),
    (
        Ranking(A, 1.0, 0.25, 2),
        "ranking",
        {"theta": A, "place": np.ones(1)},
        {"share": 0.25, "num_classes": 2.0},
    ),
    (
        RankingCurve(A, 1.0, 0.25, B, 2),
        "ranking_curve",
        {"theta": A, "place": np.ones(1), "thresholds": B},
        {"share": 0.25, "num_classes": 2.0},
    ),
    (ScoreShares(A, B), "score_shares", {"theta": A, "edges": B}, {}),
    (TargetScaleBin(0.25, 2.0, 40), "target_scale", {}, BINS),
    (
        SquaredErrors(A, -0.5, 1.5, -2.5, 0.0),
        "squared_errors",
        {
            "theta": A,
            "centre": np.array([-0.5]),
            "loss_weight": np.array([1.5]),
            "baseline_weight": np.array([-2.5]),
            "offset": np.array([0.0]),
        },
        {},
    ),
    (Teacher(A, 2, 1.5), "teacher", {"centre": A}, {"sparsity": 2.0, "radius": 1.5}),
    (
        Teacher(A, 2, 1.5, 0.5, 3, 7, link="logistic"),
        "logistic_teacher",
        {"centre": A},
        {"sparsity": 2.0, "radius": 1.5, "ridge": 0.5, "num_answers": 3.0, "synthetic_seed": 7.0},
    ),
    (Mean(A, SOME), "mean", {"centre": A, "coordinates": SOME}, {}),
    (
        WeightedMean(A, B, SOME),
        "weighted_mean",
        {"centre": A, "weights": B, "coordinates": SOME},
        {},
    ),
    (DistanceBin(A, 0.25, 2.0, 40), "distance_scale", {"centre": A}, BINS),
    (OutstandingFeatures(3), "outstanding_features", {}, {"set_size": 3.0}),
    (CorrelatedFeatures(3), "correlated_features", {}, {"set_size": 3.0}),
    (CorrelatedFeatures(3, 0.5), "correlated_features", {}, {"set_size": 3.0, "ridge": 0.5}),
    (LassoFeatures(3, 0.5), "lasso_features", {}, {"set_size": 3.0, "penalty": 0.5}),
    (PostLassoFeatures(3, 0.5), "post_lasso_features", {}, {"set_size": 3.0, "penalty": 0.5}),
    (PursuedFeatures(3), "pursued_features", {}, {"set_size": 3.0}),
    (
        SecondMoments(1.5, 2.5, 0.8, 0.6),
        "second_moments",
        {},
        BOUNDS | {"product_weight": 0.8, "square_weight": 0.6},
    ),
    (
        TensorMoments(1.5, 2.5, degree=3, stride=2),
        "tensor_moments",
        {},
        BOUNDS | {"degree": 3.0, "stride": 2.0},
    ),
    (Record(1.5, 2.5), "record", {}, BOUNDS),
    (RecordCopies(1.5, 2.5, 4), "record_copies", {}, BOUNDS | {"copies": 4.0}),
    (FrequentItems(2, 40), "frequent_items", {}, {"set_size": 2.0, "domain_size": 40.0}),
    (DrawnItems(2, 40), "drawn_items", {}, {"set_size": 2.0, "domain_size": 40.0}),
    (
        SharesBelow(SOME[1:], B, A),
        "shares_below",
        {"coordinates": SOME[1:], "thresholds": B, "levels": A},
        {},
    ),
    (Cell(SOME[1:], B), "cell", {"coordinates": SOME[1:], "edges": B}, {}),
    (
        Grain(SOME[1:], -1.5, 2.5, 4),
        "grain",
        {"coordinates": SOME[1:], "origin": np.array([-1.5])},
        {"step": 2.5, "num_steps": 4.0},
    ),
    (TableCell(SOME, B[:1]), "table_cell", {"coordinates": SOME, "sizes": B[:1]}, {}),
    (
        TableCell(SOME[:1], B[:0], 2, -1.0, 3.0, A + 1),
        "table_cell",
        {
            "coordinates": SOME[:1],
            "sizes": B[:0],
            "low": C[:1] - 5,
            "high": B[1:],
            "instead": A + 1,
        },
        {"levels": 2.0},
    ),
    (
        TableCell(SOME, B[:0], edges=np.stack([B, B - 1])),
        "table_cell",
        {"coordinates": SOME, "sizes": B[:0], "edges": np.stack([B, B - 1])},
        {},
    ),
    (
        LevelRounding(SOME[:1], B[:0], 5, -1.0, 3.0),
        "level_rounding",
        {"coordinates": SOME[:1], "sizes": B[:0], "low": C[:1] - 5, "high": B[1:]},
        {"levels": 5.0},
    ),
    (Labels(2, 1.5), "labels", {}, {"labels_per_user": 2.0, "label_bound": 1.5}),
    (
        Labels(2, 1.5, A, -0.5),
        "labels",
        {"theta": A, "offset": np.array([-0.5])},
        {"labels_per_user": 2.0, "label_bound": 1.5},
    ),
    (
        DrawnLabels(1, 1.5, A),
        "drawn_labels",
        {"theta": A},
        {"labels_per_user": 1.0, "label_bound": 1.5},
    ),
    (CellShares(SOME, B[:1]), "cell_shares", {"coordinates": SOME, "sizes": B[:1]}, {}),
    (
        CellShares(SOME, B[:1], B[None]),
        "cell_shares",
        {"coordinates": SOME, "sizes": B[:1], "edges": B[None]},
        {},
    ),
    (
        ClassMoves(np.tile(A, 2), A + 1, 2),
        "class_moves",
        {"thetas": np.tile(A, 2), "means": A + 1},
        {"num_classes": 2.0},
    ),
    (MeanAndSquares(1.5), "mean_and_squares", {}, {"bound": 1.5}),
    (
        GrainShares(SOME[:1], -0.5, 1.5, 3),
        "grain_shares",
        {"coordinates": SOME[:1], "origin": np.array([-0.5])},
        {"step": 1.5, "num_steps": 3.0},
    ),
    (ItemShares(5), "item_shares", {}, {"domain_size": 5.0}),
    (BinShares(SOME[1:], B), "bin_shares", {"coordinates": SOME[1:], "edges": B}, {}),
    (
        Moments(SOME[:1], B[:0], -1.0, 3.0),
        "moments",
        {"coordinates": SOME[:1], "sizes": B[:0], "low": C[:1] - 5, "high": B[1:]},
        {},
    ),
    (
        RidgeMove(A, A + 1, B, -0.5, SOME),
        "ridge_move",
        {
            "theta": A,
            "means": A + 1,
            "scales": B,
            "offset": np.array([-0.5]),
            "coordinates": SOME,
        },
        {},
    ),
    (
        RidgeMove(A, A + 1, link="logistic"),
        "logistic_ridge_move",
        {"theta": A, "means": A + 1},
        {},
    ),
    (
        ErrorPair(A, 0.0, -0.5, 1.5, 2.0),
        "error_pair",
        {"theta": A, "offset": np.array([0.0]), "centre": np.array([-0.5])},
        {"bound": 1.5, "centre_bound": 2.0},
    ),
    (
        LossMoments(A, -0.5, 1.5),
        "loss_moments",
        {"theta": A, "centre": np.array([-0.5])},
        {"bound": 1.5},
    ),
    (
        Products(SOME, B - 9, B),
        "products",
        {"coordinates": SOME, "lows": B - 9, "highs": B},
        {},
    ),
    (
        CorrelationSpread(SOME, B - 9, B, B - 1, B, C[:1], 6.0),
        "correlation_spread",
        {
            "coordinates": SOME,
            "lows": B - 9,
            "highs": B,
            "means": B - 1,
            "scales": B,
            "correlations": C[:1],
        },
        {"bound": 6.0},
    ),
    (
        NormalEquations(A, -0.5, A + 1, B, SOME[:1], 3.0, 1.5),
        "normal_equations",
        {
            "theta": A,
            "offset": np.array([-0.5]),
            "means": A + 1,
            "scales": B,
            "coordinates": SOME[:1],
        },
        {"row_bound": 3.0, "score_bound": 1.5},
    ),
    (NormalisedUpdate(), "normalised_update", {}, {}),
    (ClippedUpdate(radius=1.5), "clipped_update", {}, {"radius": 1.5}),
]
*STEP, STEPS = ClassStep(A, 0.5, 2.0, 3).to_wire()
COLUMNS = [  # of a table, standardised
    (ColumnMeans(A, SOME), "column_means", {"centre": A, "coordinates": SOME}, {}),
    (ColumnLogSizes(0.5, 2.0, SOME), "column_log_sizes", {"coordinates": SOME}, NORM),
    (
        ColumnMeanNorm(A, 0.5, 2.0, SOME),
        "column_mean_norm",
        {"centre": A, "coordinates": SOME},
        NORM,
    ),
]
TABLE = (
    *("column_means", "column_log_sizes", "column_mean_norm", "ridge_step"),
    *("ridge_shift", "ridge_shift_octave"),
    *("class_step", "root_curvature", "mean_score", "ranking"),
)
SETS = ("correlated_features", "lasso_features", "post_lasso_features", "pursued_features")
VECTORS = ("mean", "gradient", "residual_coefficients")
MOMENTS = ("second_moments", "tensor_moments", "record", "record_copies")
# Each view: its name around that of what is inside, its arrays and numbers, and what may be.
VIEWS = [
    (lambda q: Standardised(q, B, C), "standardised_{}", {"means": B, "scales": C}, {}, TABLE),
    (OfClasses, "class_{}", {}, {}, (*SETS, "tensor_moments", "record_copies")),
    (
        lambda q: Projected(OfClasses(q), 5, 3),
        "projected_class_{}",
        {},
        {"seed": 5.0, "projected_dim": 3.0},
        ("tensor_moments", "record_copies"),
    ),
    (
        lambda q: Projected(q, 5, 3),
        "projected_{}",
        {},
        {"seed": 5.0, "projected_dim": 3.0},
        ("mean", *MOMENTS),
    ),
    (
        lambda q: Fourier(q, 5, 4, 0.7),
        "fourier_{}",
        {},
        {"seed": 5.0, "num_features": 4.0, "length_scale": 0.7},
        ("second_moments", "record"),
    ),
    (lambda q: Rotated(q, B, C), "rotated_{}", {"signs": B, "midpoints": C}, {}, VECTORS),
    (
        lambda q: RotatedBins(q, B, 1.5, 8),
        "rotated_{}_bins",
        {"signs": B},
        {"bound": 1.5, "num_bins": 8.0},
        VECTORS,
    ),
    (
        lambda q: Shortened(q, 1.5, 0.5),
        "shortened_{}",
        {},
        {"radius": 1.5, "told": 0.5},
        (
            *("gradient", "logistic_gradient", "cosine_gradient", "mean", "local_coefficients"),
            *("ridge_move", "logistic_ridge_move", "class_moves"),
        ),
    ),
    (OctaveShares, "shares_of_{}", {}, {}, ("residual_octave", "distance_octave")),
]
WIRED = PLAIN + [
    (view(question), name.format(inner), inner_arrays | arrays, inner_params | params)
    for view, name, arrays, params, allowed in VIEWS
    for question, inner, inner_arrays, inner_params in PLAIN + COLUMNS
    if inner in allowed
]
wired = pytest.mark.parametrize(
    ("question", "name", "arrays", "params"),
    WIRED,
    ids=[f"{i} {w[1]}" for i, w in enumerate(WIRED)],
)


def assert_same(wire, name, arrays, params):
    found, found_arrays, found_params = wire
    assert found == name and found_params == params and set(found_arrays) == set(arrays)
    assert all(type(number) is float for number in found_params.values())
    for key, array in arrays.items():
        assert found_arrays[key].dtype == array.dtype
        np.testing.assert_array_equal(found_arrays[key], array)


@wired
def test_a_question_has_one_form_on_the_wire(question, name, arrays, params):
    assert_same(question.to_wire(), name, arrays, params)
    assert question.name == name


@wired
def test_what_was_read_from_the_wire_goes_back_as_it_was(question, name, arrays, params):
    read = question_from_wire(name, arrays, params)
    assert type(read) is type(question)
    assert_same(read.to_wire(), name, arrays, params)


def test_the_registry_holds_these_names_and_no_other():
    assert {name for _, name, _, _ in WIRED} == set(WIRE_TYPES), (
        "Expected an example of each question in PLAIN, or under its decorator."
    )


def test_a_digest_is_what_ledgers_have_of_it():
    """An answer once paid must be found again, by later versions, too."""
    question = Standardised(ColumnMeans(A, SOME), np.arange(3.0), np.ones(3))
    query = Query(question, SubsetHypercube(1.0, 3), 7, 0, HASH_END, 2)
    assert query.digest("a") == "60da1a7254e602e4826e785cced01276648ce91bd5475c507de5a8c9a2518f1d"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RankingCurve(A, 1.0, 0.25, np.arange(65.0), 2), "Expected at most 64 thresholds"),
        (lambda: Gradient(np.array([np.nan])), "finite numbers in array 'theta'"),
        (lambda: Gradient(A, row_bound=np.inf), "finite float for 'row_bound', got inf"),
        (lambda: Gradient(A, row_bound=0.0), "Expected positive numbers"),
        (lambda: Gradient(A, link="probit"), "Expected a link in .*'logistic'.* got 'probit'"),
        (lambda: Teacher(A, 1, 1.0, link="cosine"), "Expected a link in"),
        (lambda: SquaredErrors(A, np.nan, 1.0, 1.0, 0.0), "finite float for 'centre'"),
        (lambda: FrequentItems(2.5, 8), "integer set_size of at most .*, got 2.5"),
        (lambda: FrequentItems(2, 2.0**60), "integer domain_size"),
        (lambda: ResidualCoefficients(A, B, 1.0, scale=1.0), "scale and scale_weight together"),
        (lambda: Teacher(A, 1, 1.0, num_answers=3), "num_answers and synthetic_seed together"),
        (lambda: Labels(17, 1.0), "integer labels_per_user of at most 16, got 17"),
        (lambda: TensorMoments(1.0, 1.0, 2, 2), "stride 1 or 2, and a degree up to 7 with degree"),
        (lambda: Standardised(Labels(1, 1.0), B, C), "Unknown statistic 'standardised_labels'"),
        (lambda: Standardised(Gradient(A), B, C), "Unknown statistic 'standardised_gradient'"),
        (
            lambda: Standardised(Gradient(A, link="logistic"), B, C),
            "Unknown statistic 'standardised_logistic_gradient'",
        ),
        (lambda: Rotated(Rotated(Mean(A), B, C), B, C), "Unknown statistic 'rotated_rotated_mean'"),
        (lambda: CellShares(SOME, B[:0], B), "edges that do not decrease"),
        (lambda: CellShares(SOME, B[:0], -B[None]), "edges that do not decrease"),
        (lambda: CellShares(SOME, B[:0], np.ones((2, 3), int)), "edges that do not decrease"),
        (lambda: CellShares(SOME, B[:0], np.ones((5, 3))), "at most 4 numbers with 4096 edges"),
        (lambda: CellShares(SOME, B[:0], np.ones((2, 999))), "at most 65536 cells"),
        (lambda: TableCell(SOME, B[:0], 2, -1.0, 3.0, edges=B[None]), "levels .*, or edges"),
        (lambda: TableCell(SOME, B[:0]), "more than one cell"),
        (lambda: Rotated(Gradient(A, centre=B), B, C), "no centre of a gradient that is rotated"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_at_construction(make, message):
    with pytest.raises(MessageError, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "arrays", "params", "message"),
    [
        (None, {}, {}, "the name of a statistic"),
        ("", {}, {}, "Unknown statistic ''"),
        ("column_means", {"centre": A}, {}, "Unknown statistic 'column_means'"),
        ("identity_gradient", {"theta": A}, {}, "Unknown statistic"),
        ("gradient", {}, {}, r"the arrays \['theta'\], got \[\]"),
        ("gradient", {"theta": A, "means": B}, {}, "the arrays"),
        ("gradient", {"theta": A}, {"cap": 1.0}, r"the numbers \[\], got \['cap'\]"),
        ("gradient", {"theta": A}, {"row_bound": 1}, "finite float for 'row_bound', got 1"),
        ("gradient", {"theta": A}, {"row_bound": True}, "finite float for 'row_bound'"),
        ("gradient", {"theta": A}, {"row_bound": None}, "finite float for 'row_bound'"),
        ("gradient", {"theta": A}, {"link": 1.0}, "the numbers"),
        ("normalised_update", {}, {"rotated": 1.0}, "the numbers"),
        (*STEP, STEPS | {"weighted": 0.0}, "positive numbers"),
        (*STEP, STEPS | {"weighted": float("nan")}, "finite float for 'weighted'"),
        ("pursued_features", {}, {"set_size": 1e300}, "integer set_size"),
        ("pursued_features", {}, {"set_size": 0.5}, "integer set_size"),
    ],
)
def test_the_wire_is_not_trusted(name, arrays, params, message):
    with pytest.raises(MessageError, match=message):
        question_from_wire(name, arrays, params)


@pytest.mark.parametrize("array", [np.zeros(2), np.zeros((1, 1)), np.array(1.0), np.array([1])])
def test_a_number_in_an_array_is_one_float(array):
    _, name, arrays, params = next(one for one in WIRED if one[1] == "squared_errors")
    with pytest.raises(MessageError, match="Expected 1 floats in offset"):
        question_from_wire(name, arrays | {"offset": array}, params)


def test_any_positive_number_is_a_flag():
    read = question_from_wire(*STEP, STEPS | {"weighted": 7.0})
    assert read.weighted is True and read.to_wire()[2] == STEPS | {"weighted": 1.0}


def test_numbers_have_their_own_types():
    read = question_from_wire("tensor_moments", {}, BOUNDS | {"degree": 3.0, "stride": 2.0})
    assert type(read.degree) is int and type(read.feature_bound) is float
    assert type(Curvature(A, np.float64(2.0)).cap) is float


def test_every_selector_asks_for_a_set_of_features():
    for question in (ask(4) for ask in SELECTORS.values()):
        assert question.width(9) == 4 and question.width(3) == 3


def test_every_class_of_questions_is_in_the_registry():
    def below(kind):
        return {kind}.union(*(below(sub) for sub in kind.__subclasses__()))

    known = {kind for form in WIRE_TYPES.values() for kind in form.kinds}
    stemmed = {k for k in below(Question) if k.stem and "questions" in k.__module__}
    networks = {NetworkGradient, NetworkScore}  # only apps that take networks have statistics
    assert not networks & known
    assert stemmed == known | networks and issubclass(Standardised, TransformedQuestion)
