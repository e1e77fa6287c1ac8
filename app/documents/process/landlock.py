"""Landlock: this process can open no file, connect to no port, and signal no other process."""

from __future__ import annotations

import ctypes
import os

from app.kernel import IS_LINUX, syscall

# From linux/landlock.h and asm-generic/unistd.h; the numbers of these calls are equal on all architectures.
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_QUERY_VERSION = 1
_FILE_RIGHTS_BY_VERSION = (13, 14, 15, 15, 16)
_NETWORK_VERSION, _CONNECT_AND_BIND_TCP = 4, 0b11
_SCOPE_VERSION, _ABSTRACT_SOCKETS_AND_SIGNALS = 6, 0b11


class _Rules(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


def find_version() -> int:
    """The version of Landlock that the kernel has; 0 if there is none."""
    if not IS_LINUX:
        return 0
    try:
        return syscall(_CREATE_RULESET, 0, 0, _QUERY_VERSION)
    except OSError:
        return 0


def deny_all(version: int) -> None:
    """Deny everything that this version of Landlock can deny. Raises OSError.

    Files that are open stay usable. The caller must have given up gaining privileges.
    """
    rights = _FILE_RIGHTS_BY_VERSION[min(version, len(_FILE_RIGHTS_BY_VERSION)) - 1]
    rules = _Rules(
        (1 << rights) - 1,
        _CONNECT_AND_BIND_TCP if version >= _NETWORK_VERSION else 0,
        _ABSTRACT_SOCKETS_AND_SIGNALS if version >= _SCOPE_VERSION else 0,
    )
    ruleset = syscall(_CREATE_RULESET, ctypes.addressof(rules), ctypes.sizeof(rules), 0)
    try:
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def describe_gap(version: int) -> str | None:
    """What this version of Landlock lacks, None if nothing that matters here."""
    if version == 0:
        return "Landlock (Linux 5.13)"
    if version < _NETWORK_VERSION:
        return "Landlock for connections (Linux 6.7)"
    if version < _SCOPE_VERSION:
        return "Landlock for signals (Linux 6.12)"
    return None
