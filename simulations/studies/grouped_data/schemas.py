"""What is publicly known about every data set's columns: bounds and categories, nothing else.

Bounds are what somebody who knows the domain writes down without the table: laws, scales of
questionnaires, what a person, a county or a wine can have at all. No quantile of the data went
into them, and no typical values are declared: the protocols have to buy these.
"""

from dataclasses import dataclass

from ldp_flower import Categories, Numeric, Schema

from ...flights.flights import design

Column = Numeric | Categories


@dataclass(frozen=True)
class Declared:
    """What is declared about a data set.

    Attributes
    ----------
    schema : Schema
        Its columns and its target.
    user : str or None
        The column that says who a row belongs to; None: each row is a user of its own.
    rows_per_user : int
        A public guess of how many rows a user has.
    """

    schema: Schema
    user: str | None
    rows_per_user: int

    @property
    def is_binary(self) -> bool:
        """Whether the target is one of two classes."""
        return bool(self.schema.classes)


def _numbers(**bounds: tuple[float, float]) -> dict[str, Column]:
    return {name: Numeric(*both) for name, both in bounds.items()}


def _choices(**values: object) -> dict[str, Column]:
    return {
        name: Categories(some.split() if isinstance(some, str) else list(some))  # type: ignore[call-overload]
        for name, some in values.items()
    }


_YES_NO = (0, 1)
_SERVICES = (
    "online_security",
    "online_backup",
    "device_protection",
    "tech_support",
    "streaming_tv",
    "streaming_movies",
)

FLIGHTS = Declared(design.BOUNDS, user="tailnum", rows_per_user=50)

_WOMEN: dict[str, Column] = {
    # The survey began in 1968 with women of 14 to 24 years.
    **_numbers(age=(14, 50), grade=(0, 20), ttl_exp=(0, 30), tenure=(0, 25)),
    # Hours a week; weeks of work since the last interview, one or two years ago.
    **_numbers(hours=(0, 80), wks_work=(0, 104), year=(68, 88)),
    **_choices(race=(1, 2, 3), ind_code=range(1, 13), occ_code=range(1, 14)),
    **_choices(msp=_YES_NO, nev_mar=_YES_NO, collgrad=_YES_NO, not_smsa=_YES_NO),
    **_choices(c_city=_YES_NO, south=_YES_NO),
}
_WAGE = Numeric(0, 4)  # log of 1 to 55 dollars an hour

NLSWORK = Declared(
    Schema({**_WOMEN, **_choices(union=_YES_NO)}, target="ln_wage", bounds=_WAGE),
    user="idcode",
    rows_per_user=5,
)

UNION = Declared(
    Schema({**_WOMEN, "ln_wage": _WAGE}, target="union", bounds=Categories(_YES_NO)),
    user="idcode",
    rows_per_user=5,
)

MURDERS = Declared(
    Schema(
        {
            # People per square mile, from Alaska to Manhattan, and people: logarithms.
            **_numbers(log_density=(-2, 12), lpopul=(4, 17)),
            # Shares of the people, in per cent.
            **_numbers(perc1019=(5, 35), perc2029=(5, 45), percblack=(0, 100), percmale=(35, 70)),
            # Dollars a head and year: income, income support, unemployment insurance.
            **_numbers(rpcpersinc=(3000, 40_000), rpcincmaint=(0, 1000), rpcunemins=(0, 400)),
            **_numbers(year=(1980, 1996)),
            # States without Hawaii and Alaska are common; whoever is missing has zeros.
            **_choices(statefips=[code for code in range(1, 57) if code not in (3, 7, 14, 43, 52)]),
        },
        target="murdrate",
        bounds=Numeric(0, 10),  # per 10,000 people; the worst cities have some 8
    ),
    user="countyid",
    rows_per_user=17,
)

WINE = Declared(
    Schema(
        {
            # Grams per litre; sulphur in milligrams, which the law limits to 400 in all.
            "fixed acidity": Numeric(3, 16),
            "volatile acidity": Numeric(0, 1.6),
            "citric acid": Numeric(0, 1.5),
            "residual sugar": Numeric(0, 60),
            "chlorides": Numeric(0, 0.6),
            "free sulfur dioxide": Numeric(0, 150),
            "total sulfur dioxide": Numeric(0, 400),
            "density": Numeric(0.98, 1.01),
            "pH": Numeric(2.7, 4.1),
            "sulphates": Numeric(0.2, 2),
            "alcohol": Numeric(8, 15),  # per cent
            "color": Categories(["red", "white"]),
        },
        target="quality",
        bounds=Numeric(0, 10),  # the scale of the judges
    ),
    user="user",
    rows_per_user=10,
)

CHEMISTRY = Declared(
    Schema(
        {
            # Mean of the grades at 16, G to A*: 0 to 8; months of age around 18.5 years.
            **_numbers(gcsescore=(0, 8), age=(-6, 6)),
            **_choices(gender="F M"),
        },
        target="score",
        bounds=Numeric(0, 10),  # points of an A-level, F to A
    ),
    user="school",
    rows_per_user=10,
)

BASEBALL = Declared(
    Schema(
        {
            # A season of 162 games; years of the major leagues.
            **_numbers(g=(0, 165), ab=(0, 700), r=(0, 200), h=(0, 250), year=(1870, 2010)),
            **_numbers(X2b=(0, 70), X3b=(0, 30), hr=(0, 75), sb=(0, 130), bb=(0, 200), so=(0, 200)),
            **_choices(lg="NL AA UA PL AL FL"),
        },
        target="rbi",
        bounds=Numeric(0, 200),  # runs batted in
    ),
    user="id",
    rows_per_user=15,
)

CPS = Declared(
    Schema(
        {
            **_numbers(education=(0, 18), experience=(-5, 65)),  # years
            **_choices(ethnicity="cauc afam", smsa="no yes", parttime="no yes"),
            **_choices(region="northeast midwest south west"),
        },
        target="log_wage",
        bounds=Numeric(3, 9),  # log of 20 to 8,000 dollars a week
    ),
    user=None,
    rows_per_user=1,
)

CHURN = Declared(
    Schema(
        {
            # Months, dollars a month, and dollars in all, of a telephone company.
            **_numbers(tenure=(0, 72), monthly_charges=(0, 150), total_charges=(0, 10_000)),
            **_choices(female=_YES_NO, senior_citizen=_YES_NO, partner=_YES_NO),
            **_choices(dependents=_YES_NO, phone_service=_YES_NO, paperless_billing=_YES_NO),
            "multiple_lines": Categories(["No phone service", "No", "Yes"]),
            "internet_service": Categories(["DSL", "Fiber optic", "No"]),
            **{name: Categories(["No", "Yes", "No internet service"]) for name in _SERVICES},
            "contract": Categories(["Month-to-month", "One year", "Two year"]),
            "payment_method": Categories(
                [
                    "Electronic check",
                    "Mailed check",
                    "Bank transfer (automatic)",
                    "Credit card (automatic)",
                ]
            ),
        },
        target="churn",
        bounds=Categories(["No", "Yes"]),
    ),
    user=None,
    rows_per_user=1,
)

# Adult's attributes as a9a has them: how many values, or fifths of a number, each has.
_ADULT = {
    "age": 5,
    "workclass": 8,
    "weight": 5,
    "education": 16,
    "education_years": 5,
    "marital": 7,
    "occupation": 14,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "gain": 2,
    "loss": 2,
    "hours": 5,
    "country": 41,
}
ADULT_COLUMNS = {name: range(size) for name, size in _ADULT.items()}
_ADULT_SCHEMA = Schema(_choices(**ADULT_COLUMNS), target="rich", bounds=Categories(_YES_NO))

ADULT = Declared(_ADULT_SCHEMA, user=None, rows_per_user=1)
ADULT_GROUPS = Declared(_ADULT_SCHEMA, user="user", rows_per_user=10)

SYNTHETIC = Declared(
    Schema(
        {**_numbers(age=(18, 100), hours=(0, 80)), **_choices(sector="public private none")},
        target="wage",
        bounds=Numeric(0, 80),
    ),
    user="person",
    rows_per_user=6,
)

DECLARED = {
    "flights": FLIGHTS,
    "wages": NLSWORK,
    "murders": MURDERS,
    "chemistry": CHEMISTRY,
    "baseball": BASEBALL,
    "cps": CPS,
    "wine": WINE,
    "union": UNION,
    "churn": CHURN,
    "adult, 10 rows": ADULT_GROUPS,
    "adult, 1 row": ADULT,
    "synthetic": SYNTHETIC,
}
