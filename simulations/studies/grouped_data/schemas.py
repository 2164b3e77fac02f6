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
    user : str
        The column that says who a row belongs to.
    samples_per_user : int
        A public guess of how many rows a user has.
    """

    schema: Schema
    user: str
    samples_per_user: int


def _numbers(**bounds: tuple[float, float]) -> dict[str, Column]:
    return {name: Numeric(*both) for name, both in bounds.items()}


def _choices(**values: object) -> dict[str, Column]:
    return {
        name: Categories(some.split() if isinstance(some, str) else list(some))  # type: ignore[call-overload]
        for name, some in values.items()
    }


_YES_NO = (0, 1)
_HOUR = Numeric(0, 24)
_WEEKDAY = Categories(range(7))

FLIGHTS = Declared(
    # The app's own bounds, without its typical values and scales.
    Schema(
        {
            name: Numeric(kind.low, kind.high) if isinstance(kind, Numeric) else kind
            for name, kind in design.SCHEMA.columns.items()
        },
        target=design.SCHEMA.target,
        bounds=Numeric(design.SCHEMA.bounds.low, design.SCHEMA.bounds.high),
    ),
    user="tailnum",
    samples_per_user=50,
)

NLSWORK = Declared(
    Schema(
        {
            # The survey began in 1968 with women of 14 to 24 years.
            **_numbers(age=(14, 50), grade=(0, 20), ttl_exp=(0, 30), tenure=(0, 25)),
            # Hours a week; weeks of work since the last interview, one or two years ago.
            **_numbers(hours=(0, 80), wks_work=(0, 104), year=(68, 88)),
            **_choices(race=(1, 2, 3), ind_code=range(1, 13), occ_code=range(1, 14)),
            **_choices(msp=_YES_NO, nev_mar=_YES_NO, collgrad=_YES_NO, not_smsa=_YES_NO),
            **_choices(c_city=_YES_NO, south=_YES_NO, union=_YES_NO),
        },
        target="ln_wage",
        bounds=Numeric(0, 4),  # log of 1 to 55 dollars an hour
    ),
    user="idcode",
    samples_per_user=5,
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
    samples_per_user=17,
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
    samples_per_user=10,
)

TAXI = Declared(
    Schema(
        {
            **_numbers(distance=(0, 25), passengers=(0, 6), minutes=(0, 90)),  # miles, people
            "hour": _HOUR,
            "weekday": _WEEKDAY,
            "color": Categories(["yellow", "green"]),
            "payment": Categories(["credit card", "cash"]),
            "dropoff_borough": Categories(
                ["Manhattan", "Queens", "Brooklyn", "Bronx", "Staten Island"]
            ),
        },
        target="total",
        bounds=Numeric(0, 100),  # dollars
    ),
    user="pickup_zone",
    samples_per_user=30,
)

LOAN = Declared(
    Schema(
        {
            # Dollars; the platform lends up to 40,000.
            **_numbers(funded_amnt=(1000, 40_000), annual_inc=(0, 250_000)),
            **_numbers(total_bal_il=(0, 200_000), total_il_high_credit_limit=(0, 250_000)),
            # Per cent of the credit lines that is used.
            **_numbers(revol_util=(0, 120), all_util=(0, 120)),
            # Numbers of accounts, inquiries and delays.
            **_numbers(delinq_2yrs=(0, 5), inq_last_6mths=(0, 6), inq_last_12m=(0, 15)),
            **_numbers(inq_fi=(0, 10), open_il_6m=(0, 10), open_il_12m=(0, 6)),
            **_numbers(open_il_24m=(0, 10), num_il_tl=(0, 40)),
            **_choices(
                term="term_36 term_60",
                verification_status="Not_Verified Verified Source_Verified",
                emp_length="emp_lt_1 emp_1 emp_2 emp_3 emp_4 emp_5 emp_6 emp_7 emp_8 emp_9 "
                "emp_ge_10 emp_unk",
            ),
        },
        target="int_rate",
        bounds=Numeric(5, 31),  # per cent a year
    ),
    user="addr_state",
    samples_per_user=120,
)

HELP = Declared(
    Schema(
        {
            # The eight scales of the SF-36 questionnaire.
            **_numbers(PF=(0, 100), RP=(0, 100), BP=(0, 100), GH=(0, 100)),
            **_numbers(VT=(0, 100), SF=(0, 100), RE=(0, 100), MH=(0, 100)),
            # Support by friends and family, risks by drugs and sex, months of the interview.
            **_numbers(PSS_FR=(0, 14), PSS_FA=(0, 14), DRUGRISK=(0, 21), SEXRISK=(0, 21)),
            **_numbers(TIME=(0, 24)),
            **_choices(UNEMPLOY=_YES_NO, HOMELESS=_YES_NO, SMOKER=_YES_NO, GROUP=_YES_NO),
        },
        target="CES_D",
        bounds=Numeric(0, 60),  # the scale of depression
    ),
    user="ID",
    samples_per_user=3,
)

SYNTHETIC = Declared(
    Schema(
        {**_numbers(age=(18, 100), hours=(0, 80)), **_choices(sector="public private none")},
        target="wage",
        bounds=Numeric(0, 80),
    ),
    user="person",
    samples_per_user=6,
)

DECLARED = {
    "flights": FLIGHTS,
    "nlswork": NLSWORK,
    "murders": MURDERS,
    "wine": WINE,
    "taxi": TAXI,
    "loan": LOAN,
    "helpfull": HELP,
    "synthetic": SYNTHETIC,
}
