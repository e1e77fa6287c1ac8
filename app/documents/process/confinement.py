"""Confines the process that reads a file: a parser that is broken into reaches nothing.

Each protection holds without the others, because not every system has all of them.
"""

from __future__ import annotations

import math
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass

from app.documents.parsed import ParseLimits
from app.documents.process import landlock, syscalls
from app.kernel import (
    die_with_parent,
    drop_capabilities,
    forbid_inspection,
    forbid_new_privileges,
    has_capability,
)

_GRACE_SECONDS = 5.0
# Not an account of the system, nor in a range from which programs choose ids.
_USER_INSTEAD_OF_ROOT = 65_530
# From linux/capability.h. Without CAP_KILL, the service could not end a process of another user.
_CAP_KILL, _CAP_SETGID, _CAP_SETUID = 5, 6, 7


class Unprotected(Exception):
    """The system lacks a protection; the text names it."""


@dataclass(frozen=True, slots=True)
class Protection:
    """One measure. `apply` raises Unprotected or OSError where the system does not allow it."""

    name: str
    apply: Callable[[ParseLimits], None]


def confine(limits: ParseLimits) -> list[str]:
    """Apply all protections in their order; return the names of those that the system lacks."""
    missing = []
    for protection in PROTECTIONS:
        try:
            protection.apply(limits)
        except Unprotected as error:
            missing.append(str(error))
        except OSError:
            missing.append(protection.name)
    return missing


def _become_another_user(limits: ParseLimits) -> None:
    if os.geteuid() != 0:
        return
    if not all(map(has_capability, (_CAP_KILL, _CAP_SETGID, _CAP_SETUID))):
        raise Unprotected("own user (root without the capabilities KILL, SETGID and SETUID)")
    parent = os.getppid()
    os.setgroups([])
    os.setgid(_USER_INSTEAD_OF_ROOT)
    os.setuid(_USER_INSTEAD_OF_ROOT)
    # The change of user cleared it.
    die_with_parent(signal.SIGKILL, parent)


def _limit_resources(limits: ParseLimits) -> None:
    """Limit memory and time, and forbid processes, threads and files.

    The timer is for systems that do not report the end of the parent.
    """
    seconds = math.ceil(limits.seconds)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + _GRACE_SECONDS)
    refused = [
        name
        for name, kind, soft, hard in (
            ("memory", resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
            ("time", resource.RLIMIT_CPU, seconds, seconds + 1),  # the signal comes before the kill
            ("core dumps", resource.RLIMIT_CORE, 0, 0),
            ("written files", resource.RLIMIT_FSIZE, 0, 0),
            ("processes", resource.RLIMIT_NPROC, 0, 0),
        )
        if not _limit(kind, soft, hard)
    ]
    if refused:
        raise Unprotected(f"limits of {', '.join(refused)}")


def _restrict_by_landlock(limits: ParseLimits) -> None:
    version = landlock.find_version()
    if version:
        landlock.deny_all(version)
    if gap := landlock.describe_gap(version):
        raise Unprotected(gap)


def _forbid_descriptors(limits: ParseLimits) -> None:
    # Open descriptors stay usable.
    if not _limit(resource.RLIMIT_NOFILE, 0, 0):
        raise Unprotected("no new descriptors")


def _filter_system_calls(limits: ParseLimits) -> None:
    if not syscalls.is_supported():
        raise Unprotected("filter of system calls (Linux on x86-64 or aarch64)")
    syscalls.allow_reading_only()


def _limit(kind: int, soft: int, hard: int) -> bool:
    _, allowed = resource.getrlimit(kind)
    most = hard if allowed == resource.RLIM_INFINITY else min(hard, allowed)
    try:
        resource.setrlimit(kind, (min(soft, most), most))
    except (OSError, ValueError):  # macOS refuses some of them
        return False
    return True


PROTECTIONS: tuple[Protection, ...] = (
    Protection("own user", _become_another_user),
    Protection("no capabilities", lambda limits: drop_capabilities()),
    Protection("no inspection", lambda limits: forbid_inspection()),
    Protection("no new privileges", lambda limits: forbid_new_privileges()),
    Protection("limits of resources", _limit_resources),
    Protection("Landlock", _restrict_by_landlock),
    Protection("no new descriptors", _forbid_descriptors),
    Protection("filter of system calls", _filter_system_calls),
)
"""In this order: a change of user clears later ones, and the filter denies the calls of the others."""
