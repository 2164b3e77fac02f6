"""Checks that find the problems of a node's app and data before its first message."""

import logging
import time
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from ..clients import LdpClientApp
from ..clients.private_training.records import NUMBERS, Form, Loaded, in_words
from ..data import table_file
from ..data.users import SCHEMA
from ..guarantee.budget import PrivacyPolicy
from ..guarantee.messages import CENSUS
from ..guarantee.studies import Studies
from ..models import Limits, Network
from .findings import Findings
from .journal import collected_log
from .settings import AppError, OwnApp, OwnRecords, Settings

# Accepted ratios of the declared to the true number of records; steps are wrong by this ratio.
_ABOUT_RIGHT = 0.5, 2.0


def check_app(
    config: Mapping[str, object], settings: Settings, studies: Studies | None, findings: Findings
) -> None:
    """Add findings on the operator's app or table, which is asked for its number of users."""
    try:
        app = settings.source.client_app()
    except AppError as error:
        findings.problems.append(str(error))
        return
    if not isinstance(app, LdpClientApp):
        findings.facts.append(
            f"App: {settings.name} is imported; its data are first read with a query."
        )
        if "user-id" not in config:
            findings.doubts.append(
                "There is no user-id in the node's configuration: with LdpUpdateMod this app would "
                "refuse every question."
            )
        return
    own = isinstance(settings.source, OwnApp)
    with collected_log("ldp_flower", logging.WARNING) as records:
        reply = census_reply(app, config)
    # First the oddities of a table that can be read, then the client's other warnings.
    findings.doubts += [r.getMessage() for r in records if r.name == table_file.__name__]
    warnings = [_log_text(r) for r in records if r.name != table_file.__name__]
    if reply.has_error():
        why = warnings[-1] if warnings else reply.error.reason
        findings.problems.append(f"{settings.name} does not answer: {why}")
    elif not (users := reply.content.metric_records["census"]["users"]):
        of_table = "it has no rows, and no --ids that name whom it is about"
        why = "load_users returns none" if own else of_table
        findings.doubts.append(f"{settings.name} has no users who could answer: {why}.")
    else:
        if studies is not None and SCHEMA in reply.content:
            declared = reply.content.metric_records[SCHEMA]  # names are "column age", "target wage"
            _columns(studies, [name.partition(" ")[2] for name in declared], findings)
        findings.facts.append(f"{'App' if own else 'Table'}: {settings.name}, with {users} users.")
        findings.doubts += warnings  # entries that do not match the schema


def _columns(studies: Studies, names: list[str], findings: Findings) -> None:
    """Add a problem for each column that an approved study lists and the schema lacks.

    ``names`` are the schema's columns. Studies that have ended are skipped.
    """
    now = time.time()
    for each in studies.approved.values():
        for name in each.columns:
            if name in (*names, "intercept") or now >= each.ends:
                continue
            near = get_close_matches(name, names, n=1)
            meant = f": is {near[0]!r} meant?" if near else f". It has {', '.join(names)}."
            findings.problems.append(
                f"Study {each.id} lists the column {name!r}, which the schema lacks{meant}"
            )


def check_records(
    config: Mapping[str, object],
    file: OwnRecords,
    policy: PrivacyPolicy | None,
    network: Path | None,
    findings: Findings,
) -> None:
    """Add findings on records for training: their form, their targets, and the policy for them."""
    if "user-id" not in config:
        findings.problems.append(
            "There is no name for the silo on the ledger: set user-id in the node's configuration."
        )
    try:
        loaded = Loaded.of(*file())
    except ValueError as error:
        findings.problems.append(str(error))
        return
    records, targets, users = loaded.records, loaded.targets, len(loaded.names)
    of_users = policy is not None and policy.noise != "user"
    if policy is not None and not (policy.allow_inexact and (policy.unit == "record" or of_users)):
        findings.problems.append(
            "Training on records needs in the node's configuration: allow-inexact=true, max-delta, "
            'and either unit="record" with num-records or, to protect all records of a user '
            'together, noise="node".'
        )
    if of_users and not users:
        findings.problems.append(
            f'With noise="node" users are protected, and {Path(file.path).name} has no array '
            "owners, which names the user of each record."
        )
    about = f", about {users} users" if users else ""
    findings.facts.append(
        f"Records: {file.path}, {len(records)} records of {in_words(records.shape[1:])}{about}."
    )
    for name, values in (("Records", records), ("Targets", targets)):
        if values.dtype.kind not in NUMBERS:
            findings.problems.append(f"{name} are no numbers but {values.dtype}.")
            return
    if known := np.isfinite(targets).sum():
        least, most = np.nanmin(targets), np.nanmax(targets)
        findings.facts.append(
            f"Targets: {in_words(targets.shape[1:])} each, from {least:g} to {most:g} (a "
            "network's classes count from 0)."
        )
    if lost := targets.size - known:
        findings.doubts.append(f"{lost} of {targets.size} targets are not finite.")
    if network is not None:
        _fit(network, file.limits, records, targets, findings)
    declared = None if policy is None else policy.num_records
    if declared and not _ABOUT_RIGHT[0] <= declared / max(len(records), 1) <= _ABOUT_RIGHT[1]:
        findings.doubts.append(
            f"num-records={declared:g}, but {Path(file.path).name} has {len(records)}: sums are "
            "divided by the declared number. It need not be exact, only about right."
        )


def _fit(
    network: Path,
    limits: Limits,
    records: NDArray[Any],
    targets: NDArray[Any],
    findings: Findings,
) -> None:
    """Add findings on how many records fit a network, which would train on them."""
    try:
        form = Form.of(Network.load(network, limits), limits)
    except (OSError, ValueError, ImportError) as error:
        findings.problems.append(f"The network {network} cannot be used: {error}")
        return
    if (wrong := form.misfit(records, targets)) is not None:
        findings.problems.append(f"The node would refuse {network.name}: {wrong}")
        return
    *_, usable = form.fitted(records, targets, len(records))
    (findings.doubts if usable.faults else findings.facts).append(f"{network.name}: {usable}")


def _log_text(record: logging.LogRecord) -> str:
    """Return a log record's text for the operator or, if it has an exception, the error's text."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return record.getMessage()
    # A ValueError has a sentence of this library.
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def census_reply(app: ClientApp, node_config: Mapping[str, object]) -> Message:
    """Return an app's reply to the message with which runs begin, as if a server had sent it."""
    if vars(TaskIdentity)["_run_id"] is None:  # not inside one of Flower's processes
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
    message = Message(RecordDict(), dst_node_id=1, message_type=f"query.{CENSUS}")
    message.metadata.__dict__["_message_id"] = "check"
    config = cast(dict[str, bool | float | int | str], dict(node_config))
    return app(message, Context(1, 1, config, RecordDict(), {}))
