"""Checks that find the problems of a node's configuration before its first message."""

import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ..guarantee.budget import NOISE, PrivacyPolicy
from ..guarantee.ledger import SqliteLedger
from ..guarantee.ledger_file import LedgerError
from ..guarantee.peers import KeyFiles, PeersError, PinnedPeers
from ..guarantee.peers_file import shown
from ..guarantee.studies import Studies, StudiesError, Study
from ..presentation.words import counted
from ..questions import WIRE_TYPES
from .data_checks import check_app, check_records
from .findings import Findings
from .settings import OwnApp, OwnRecords, OwnTable, Settings, Source

# At this epsilon, an attacker who guesses between two versions of the data may be wrong with a
# probability of 1 / (1 + exp(epsilon)) only: once in 22,000 times.
_WEAK_EPSILON: Final = 10.0
_TEXTS: Final = frozenset({"ledger-path", "user-id", "public-metrics"})


def examine(
    config: Mapping[str, object], settings: Settings | None = None, network: Path | None = None
) -> Findings:
    """Check a node's configuration and, if they are known, its app and its data.

    Without ``settings`` the node is a plain SuperNode, whose app is not known. Records are compared
    with the inputs of the ``network``, a file of :meth:`ldp_flower.models.Network.save`.
    """
    findings = Findings()
    source, files = (None, None) if settings is None else (settings.source, settings.files)
    findings.problems += _mistyped(config)
    policy = _policy(config, findings)
    _ledger(config, policy, findings)
    _keys(config, source, findings)
    _places(config, source, files, findings)
    _peers(files, policy, findings)
    studies = _studies(source, policy, findings)
    if settings is not None and not findings.problems:
        if isinstance(source, OwnRecords):
            check_records(config, source, policy, network, findings)
        else:
            check_app(config, settings, studies, findings)
    return findings


def _policy(config: Mapping[str, object], findings: Findings) -> PrivacyPolicy | None:
    try:
        policy = PrivacyPolicy.from_node_config(config)
    except (ValueError, OverflowError) as error:
        findings.problems.append(f"The policy is not valid: {error}")
        return None
    if policy is None:
        findings.problems.append("There is no policy: set max-epsilon in the node's configuration.")
    elif policy.min_epsilon > policy.max_epsilon:
        findings.problems.append(
            f"No query can be answered: min-epsilon {policy.min_epsilon:g} is above max-epsilon "
            f"{policy.max_epsilon:g}."
        )
    else:
        findings.facts.append(
            f"Policy: epsilon {policy.max_epsilon:g} and delta {policy.max_delta:g} for each "
            f"{policy.unit}, for life."
            + _NOISE[policy.noise].format(policy.max_dishonest, policy.epsilon_alone)
        )
        if policy.max_epsilon > _WEAK_EPSILON:
            findings.doubts.append(
                f"max-epsilon {policy.max_epsilon:g} gives almost no protection: an attacker who "
                f"guesses between two versions of a {policy.unit}'s data may be wrong less than "
                "once in 20,000 times. Usual values are 0.5 to 8."
            )
    return policy


def _mistyped(config: Mapping[str, object]) -> Iterator[str]:
    """Yield a text for each setting of the library, other than the policy, of a wrong type."""
    for key in sorted(_TEXTS & set(config)):
        if not isinstance(config[key], str) or not config[key]:
            yield f"Expected a text in quotes for {key}, got {config[key]!r}."
    if not isinstance(config.get("rehearsal", False), bool):
        yield f"Expected rehearsal true or false, got {config['rehearsal']!r}."


def _ledger(config: Mapping[str, object], policy: PrivacyPolicy | None, findings: Findings) -> None:
    if "ledger-path" not in config:
        findings.problems.append("There is no ledger: set ledger-path in the node's configuration.")
        return
    if not isinstance(path := config["ledger-path"], str):
        return  # _mistyped has reported this
    try:
        ledger = SqliteLedger(path)
        ledger.check("user" if policy is None else policy.unit)
        findings.facts.append(f"Ledger: {path}, on which {len(ledger.spent())} users have spent.")
    except LedgerError as error:
        findings.problems.append(str(error))


def _keys(config: Mapping[str, object], source: Source | None, findings: Findings) -> None:
    nearly = PrivacyPolicy.nearly_settings(config)
    for key, setting in sorted(nearly.items()):
        findings.doubts.append(
            f"The key {key!r} is no setting of ldp-flower and is left to the app: is {setting!r} "
            "meant?"
        )
    if source is not None and not isinstance(source, OwnApp):
        for key in sorted(PrivacyPolicy.unknown_settings(config) - set(nearly)):
            findings.problems.append(f"The key {key!r} has no effect on a node without an app.")


_NOISE = {
    "user": "",
    "node": " Noise may be added once to the node's sum.",
    "shared": " Noise may be shared with other nodes, of which at most {} may collude; if all do, "
    "epsilon is at most {:g}.",
}


def _peers(files: KeyFiles | None, policy: PrivacyPolicy | None, findings: Findings) -> None:
    """Check the key and the peers of a node that shares its noise."""
    dishonest = None if policy is None else policy.max_dishonest  # set with shared noise only
    if files is None:
        if dishonest is not None:
            findings.problems.append(
                'With noise="shared" the node needs `ldp-flower supernode` with --key and --peers.'
            )
        return
    if policy is not None and dishonest is None:
        findings.problems.append('--key and --peers have no effect without noise="shared".')
    try:
        found = PinnedPeers.read(files)
    except PeersError as error:
        findings.problems.append(str(error))
        return
    others = sorted(set(found.pins) - {found.name})
    findings.facts.append(f"Peers: this node is {found.name}; it knows {', '.join(others)}.")
    if dishonest is not None and len(found.pins) < dishonest + 3:
        findings.problems.append(
            f"{len(found.pins)} nodes are too few to share noise if {dishonest} may collude: at "
            f"least {dishonest + 3} are needed, so that one may fail."
        )


def _studies(
    source: Source | None, policy: PrivacyPolicy | None, findings: Findings
) -> Studies | None:
    """Return the approved studies, if their file is valid; add findings about it."""
    if policy is None or policy.studies is None:
        return None
    if isinstance(source, OwnRecords):
        findings.problems.append(
            "A node with approved studies trains nothing: take the key studies out."
        )
    try:
        studies = Studies.read(policy.studies)
        studies.check(policy)
    except StudiesError as error:
        findings.problems.append(str(error))
        return None
    now = time.time()
    for each in studies.approved.values():
        findings.facts.append(_told(each, now))
        if unknown := [name for name in each.questions if name not in WIRE_TYPES]:
            findings.doubts.append(
                f"Study {each.id} lists questions that only an own app can answer: "
                f"{', '.join(unknown)}."
            )
        places = [place for place in each.noise if NOISE.index(place) > NOISE.index(policy.noise)]
        if places:
            findings.problems.append(
                f'Study {each.id} lists noise "{places[-1]}", and the policy has '
                f'noise="{policy.noise}".'
            )
    if not studies.allow_census(now):
        findings.doubts.append(
            "No study that has not ended has census = true, with which all strategies begin."
        )
    return studies


def _told(study: Study, now: float) -> str:
    """Return sentences for the operator that say what a study allows."""
    alone = "" if study.epsilon_alone is None else f" (alone {study.epsilon_alone:g})"
    keys = [f"the key {shown(bytes.fromhex(key))}" for key in study.signed_by]
    return (
        f"Study {study.id}: epsilon {study.epsilon:g}{alone} and delta {study.delta:g}, "
        f"{counted(study.steps, 'step')}, {'ended' if now >= study.ends else 'until'} "
        f"{study.until}. Questions: {', '.join(study.questions)}. Columns: "
        f"{', '.join(study.columns)}. Noise: {', '.join(study.noise)}. Signed by "
        f"{' or '.join(keys) or 'nobody'}. Census: {'yes' if study.census else 'no'}."
    )


def _places(
    config: Mapping[str, object], source: Source | None, files: KeyFiles | None, findings: Findings
) -> None:
    """Add findings for files that are missing, or that other accounts can read or change."""
    named = {
        f"{key} {value}": value for key, value in config.items() if value and isinstance(value, str)
    }
    schema = source.schema if isinstance(source, OwnTable) else None
    anyone = {schema, config.get("studies")}  # who reads these learns nothing
    if isinstance(source, OwnTable):
        named |= {f"--table {source.path}": source.path, f"--schema {schema}": source.schema}
        named |= {f"--ids {source.ids}": source.ids} if source.ids is not None else {}
    if isinstance(source, OwnRecords):
        named[f"--records {source.path}"] = source.path
    if files is not None:
        named |= {f"--key {files.key}": files.key, f"--peers {files.peers}": files.peers}
        anyone.add(files.peers)
    for name, text in named.items():
        path = Path(text).expanduser()
        if not path.exists():
            if name.split()[0].endswith("-path") and not name.startswith("ledger-path"):
                findings.problems.append(f"There is no file at {name}.")
            continue
        for what in _open_to_others(path.resolve(), public=text in anyone):
            findings.problems.append(f"{name}: {what}")


def _open_to_others(path: Path, public: bool) -> Iterator[str]:
    """Yield texts: the ways in which other accounts can read, write or replace a file."""
    folders = [*path.parents][::-1]
    for above, folder in zip(folders, [*folders[1:], path], strict=True):
        mode = above.stat().st_mode
        if not mode & stat.S_IXOTH:
            return  # other accounts cannot enter this folder
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            yield f"every account of this machine can replace {folder}: chmod o-w {above}"
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH:
        yield f"every account of this machine can write it: chmod o-w {path}"
    if mode & stat.S_IROTH and not public:
        yield f"every account of this machine can read it: chmod o-r {path}"
