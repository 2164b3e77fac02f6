"""Compare the frequency oracles with those of pure-ldp and multi-freq-ldpy.

``python -m simulations.benchmarks oracles``. The other libraries live in
an environment of their own, which the first run creates, and run there in a process
of their own on the same items: this module again, with ``--others``. For that reason
everything but NumPy is imported where it is used, and nothing of the harness.

Times are of encoding and decoding together, the fastest of ten repetitions after a
warm-up that compiles what there is to compile; slow libraries get the first few
thousand users. Empirical variances are mean squared errors of all counts over the
number of users; their standard error is about 1.5 % with 1,024 items. multi-freq-ldpy
clips negative counts and rescales the rest, which hides an oracle's variance behind a
bias, so it is made to return the counts that it has before that.
"""

import argparse
import json
import math
import os
import random
import subprocess
import tempfile
import time
import venv
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Items = NDArray[np.int64]
Counts = NDArray[np.float64]
Row = dict[str, Any]
Oracle = tuple[Callable[[Items], Counts], float]  # encodes and decodes; exact variance

# Neither library declares all that it imports; xxhash 3.5 refuses their 64-bit seeds.
REQUIREMENTS = ["pure-ldp==1.2.0", "multi-freq-ldpy==0.2.5", "xxhash<3.5", "scikit-learn"]
REQUIREMENTS += ["statsmodels"]
SEED, REPETITIONS, CHUNK = 1, 10, 16_384

OURS = {
    "k-RR": "KRandomizedResponse",
    "subset selection": "SubsetSelection",
    "OUE": "OptimizedUnaryEncoding",  # of the benchmarks
    "OLH": "OptimizedLocalHashing",
    "Hadamard": "HadamardResponse",
}
MOST_USERS = {
    "k-RR": 100_000,
    "subset selection": 20_000,
    "OUE": 20_000,
    "OLH": 2_000,
    "Hadamard": 20_000,
}
REQUIRED = {
    ("multi-freq-ldpy", "subset selection"): 5,
    ("multi-freq-ldpy", "OUE"): 5,
    ("pure-ldp", "OLH"): 50,
}


def zipf(users: int, domain: int) -> Items:
    """Draw one item per user with probabilities proportional to 1 / rank."""
    weights = 1 / np.arange(1, domain + 1)
    return np.random.default_rng(SEED).choice(domain, users, p=weights / weights.sum())


def pure_variance(p: float, q: float, domain: int) -> float:
    """Return the variance per user of the count of an item, averaged over the items."""
    return (p * (1 - p) / domain + q * (1 - q) * (1 - 1 / domain)) / (p - q) ** 2


def measure(oracle: Oracle, items: Items, domain: int) -> Row:
    """Time an oracle on the items and compare its counts with the truth."""
    run, exact = oracle
    run(items[:200])
    truth = np.bincount(items, minlength=domain)
    seconds, errors = [], []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        counts = run(items)
        seconds.append(time.perf_counter() - start)
        errors.append(float(np.square(counts - truth).mean()) / len(items))
    return {
        "users": len(items),
        "microseconds": min(seconds) / len(items) * 1e6,
        "empirical": float(np.mean(errors)),
        "exact": exact,
    }


def ours(name: str, epsilon: float, domain: int) -> Oracle:
    """Return one of our oracles, a chunk of users at a time."""
    from ldp_flower import randomizers
    from ldp_flower.randomness import derive

    from .unary import OptimizedUnaryEncoding

    kind = OptimizedUnaryEncoding if name == "OUE" else getattr(randomizers, OURS[name])
    oracle = kind(epsilon, domain)
    rng = np.random.default_rng(SEED)

    def run(items: Items) -> Counts:
        total = np.zeros(domain)
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK, None]
            coins = derive(SEED, np.arange(start, start + len(chunk), dtype=np.uint64))
            total += oracle.counts(oracle.randomize(chunk, rng, coins), coins)
        return total

    return run, oracle.variance_at(1 / domain)


def multi_freq_ldpy(epsilon: float, domain: int) -> dict[str, Oracle]:
    """Return the oracles of multi-freq-ldpy."""
    from multi_freq_ldpy.pure_frequency_oracles import (  # type: ignore[import-not-found]
        GRR,
        LH,
        SS,
        UE,
    )

    laws: list[tuple[float, float]] = []

    def unbiased(support: Counts, users: int, p: float, q: float) -> Counts:
        laws.append((p, q))
        return np.asarray((support - users * q) / (p - q))

    for module in (GRR, LH, SS, UE):
        module.MI = unbiased

    def grr(items: Items) -> Counts:
        reports = [GRR.GRR_Client(item, domain, epsilon) for item in items.tolist()]
        return np.asarray(GRR.GRR_Aggregator_MI(reports, domain, epsilon))

    def subset(items: Items) -> Counts:
        reports = [SS.SS_Client(item, domain, epsilon) for item in items.tolist()]
        return np.asarray(SS.SS_Aggregator_MI(reports, domain, epsilon))

    def unary(items: Items) -> Counts:
        reports = [UE.UE_Client(item, domain, epsilon) for item in items.tolist()]
        return np.asarray(UE.UE_Aggregator_MI(reports, epsilon))

    def hashing(items: Items) -> Counts:
        reports = [LH.LH_Client(item, domain, epsilon) for item in items.tolist()]
        return np.asarray(LH.LH_Aggregator_MI(reports, domain, epsilon))

    oracles: dict[str, Oracle] = {}
    runs: dict[str, Callable[[Items], Counts]] = {
        "k-RR": grr,
        "subset selection": subset,
        "OUE": unary,
        "OLH": hashing,
    }
    for name, run in runs.items():
        run(np.zeros(1, np.int64))
        oracles[name] = (run, pure_variance(*laws[-1], domain))
    return oracles


def pure_ldp(epsilon: float, domain: int) -> dict[str, Oracle]:
    """Return the oracles of pure-ldp."""
    from pure_ldp import frequency_oracles as fo  # type: ignore[import-not-found]

    def oracle(client: Any, server: Any, variance: float) -> Oracle:
        def run(items: Items) -> Counts:
            server.reset()
            server.aggregate_all([client.privatise(item) for item in items.tolist()])
            return np.asarray(server.estimate_all(range(domain), suppress_warnings=True))

        return run, variance

    shared = {"epsilon": epsilon, "d": domain, "index_mapper": lambda item: item}
    direct = fo.DEClient(**shared)
    unary = fo.UEClient(**shared, use_oue=True)
    hashing = fo.LHClient(**shared, use_olh=True)
    hadamard = fo.HadamardResponseServer(**shared)
    return {
        "k-RR": oracle(direct, fo.DEServer(**shared), pure_variance(direct.p, direct.q, domain)),
        "OUE": oracle(
            unary, fo.UEServer(**shared, use_oue=True), pure_variance(unary.p, unary.q, domain)
        ),
        "OLH": oracle(
            hashing,
            fo.LHServer(**shared, use_olh=True),
            pure_variance(hashing.p, 1 / hashing.g, domain),
        ),
        "Hadamard": oracle(
            fo.HadamardResponseClient(**shared, hash_funcs=hadamard.get_hash_funcs()),
            hadamard,
            hadamard_variance(epsilon, domain),
        ),
    }


def hadamard_variance(epsilon: float, domain: int) -> float:
    """Return the variance of pure-ldp's Hadamard response, averaged over items.

    Up to epsilon 1 it is the form that we have. Beyond, items are split into blocks,
    and a report is worth +-c to the items of its block and nothing to the others: c is
    (2 B - 1 + e^epsilon) / (e^epsilon - 1) for B blocks.
    """
    e = math.exp(epsilon)
    if epsilon <= 1:
        p = e / (e + 1)
        return pure_variance(p, 0.5, domain)
    blocks = 1 << int(math.log2(min(2 * domain, e)))
    in_block = (1 << math.ceil(math.log2(domain / blocks + 1))) - 1
    full, rest = divmod(domain, in_block)
    same = (full * in_block**2 + rest**2) / domain**2  # share of users in an item's block
    outputs = 2 * blocks - 1 + e
    square = outputs * (same * (e + 1) + (1 - same) * 2) / (e - 1) ** 2
    return square - 1 / domain


def seed_others() -> None:
    """Seed the three generators that the other libraries use; numba has its own."""
    import numba  # type: ignore[import-not-found]

    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002
    numba.njit(lambda: np.random.seed(SEED))()  # noqa: NPY002


def run_others(folder: Path, epsilon: float, domain: int) -> None:
    """Measure the other libraries on the items in a folder and leave the rows there."""
    warnings.simplefilter("ignore")
    seed_others()
    items = np.load(folder / "items.npy")
    rows = [
        {"oracle": name, "library": library} | measure(oracle, items[: MOST_USERS[name]], domain)
        for library, oracles in (
            ("multi-freq-ldpy", multi_freq_ldpy(epsilon, domain)),
            ("pure-ldp", pure_ldp(epsilon, domain)),
        )
        for name, oracle in oracles.items()
    ]
    used = ("pure-ldp", "multi-freq-ldpy", "numba", "numpy", "xxhash")
    result = {"rows": rows, "versions": {name: version(name) for name in used}}
    (folder / "others.json").write_text(json.dumps(result))


def environment(path: Path) -> Path:
    """Return the interpreter of the other libraries' environment, creating it if need be."""
    python = path / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp = path / "requirements.json"
    if not stamp.exists() or json.loads(stamp.read_text()) != REQUIREMENTS:
        print(f"Creating {path} ...", flush=True)
        venv.create(path, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        stamp.write_text(json.dumps(REQUIREMENTS))
    return python


def compare(python: Path, users: int, domain: int, epsilon: float) -> Row:
    """Measure the other libraries and ours, one after the other, on the same items."""
    items = zipf(users, domain)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "items.npy", items)
        arguments = ["--others", folder, "--epsilon", str(epsilon), "--domain", str(domain)]
        command = [str(python), "-m", f"{__package__}.frequency", *arguments]
        subprocess.run(command, cwd=Path(__file__).parents[2], check=True)
        others = json.loads((Path(folder) / "others.json").read_text())
    rows = [
        {"oracle": name, "library": "ldp-flower"}
        | measure(ours(name, epsilon, domain), items, domain)
        for name in OURS
    ]
    reference = {row["oracle"]: row for row in rows}
    for row in others["rows"]:
        own = reference[row["oracle"]]
        row["times_ours"] = row["microseconds"] / own["microseconds"]
        row["variance_over_ours"] = row["exact"] / own["exact"]
        row["required"] = REQUIRED.get((row["library"], row["oracle"]))
    versions = others["versions"] | {"ldp-flower": version("ldp-flower")}
    setting = {"users": users, "domain": domain, "epsilon": epsilon, "versions": versions}
    return setting | {"rows": rows + others["rows"]}


if __name__ == "__main__":  # in the environment of the other libraries
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--others", type=Path, required=True)
    parser.add_argument("--domain", type=int, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    options = parser.parse_args()
    run_others(options.others, options.epsilon, options.domain)
