"""Basis: what a step is proposed under, and what of it changed since the step before."""

import hashlib

from skillopt_ci.config.reference import changed_keys, recordable
from skillopt_ci.ledger.records import Basis
from skillopt_ci.training.session import Session


def basis_of(session: Session) -> Basis:
    """The basis of steps from now on."""
    return Basis.model_validate(
        {
            "config": recordable(session.config),
            "train_size": len(session.splits.train),
            "train_sha256": session.train_sha256,
        }
    )


def basis_sha256(basis: Basis) -> str:
    """A name for ``basis``."""
    return hashlib.sha256(basis.model_dump_json().encode("utf-8")).hexdigest()


def changes_since(before: Basis | None, now: Basis) -> tuple[str, ...]:
    """What changed, in words: keys of the configuration, and the training tasks."""
    if before is None:
        return ()
    keys = changed_keys(before.config, now.config)
    if before.train_sha256 == now.train_sha256:
        return keys
    sizes = f"{before.train_size} → {now.train_size}"
    same = before.train_size == now.train_size
    return (*keys, "the training tasks" if same else f"the training tasks ({sizes})")
