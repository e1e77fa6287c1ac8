"""A change from root to an ordinary user that keeps one Linux capability."""

from __future__ import annotations

import os

from app.kernel import PR_CAP_AMBIENT, forbid_new_privileges, keep_capabilities, prctl

# Numbers from linux/capability.h, linux/prctl.h and linux/securebits.h.
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2

_PR_SET_KEEPCAPS = 8
_PR_GET_SECUREBITS = 27
_PR_SET_SECUREBITS = 28
_PR_CAP_AMBIENT_RAISE = 2
_SECBIT_NO_SETUID_FIXUP = 1 << 2


def become_user(uid: int, gid: int, capability: int | None) -> None:
    """Change this root process to an ordinary user that keeps at most one capability, also across exec.

    Raises OSError where the system does not allow it.
    """
    if capability is not None:
        try:
            # Postgres finds its own programs with access(2), which otherwise ignores capabilities.
            prctl(_PR_SET_SECUREBITS, prctl(_PR_GET_SECUREBITS) | _SECBIT_NO_SETUID_FIXUP)
        except PermissionError:
            prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if capability is not None:
        keep_capabilities(1 << capability)
        prctl(PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)
        forbid_new_privileges()
