"""Linux calls that Python does not offer: capabilities and the parent-death signal."""

from __future__ import annotations

import ctypes
import os
import sys

# Numbers from linux/capability.h, linux/prctl.h and linux/securebits.h.
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2

_CAPABILITY_VERSION_3 = 0x20080522
_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_GET_SECUREBITS = 27
_PR_SET_SECUREBITS = 28
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_SECBIT_NO_SETUID_FIXUP = 1 << 2

IS_LINUX = sys.platform.startswith("linux")

# Loaded here so that a forked child does not have to load a library.
_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def die_with_parent(signal_number: int, parent: int) -> None:
    """Ask the kernel to send this process a signal when `parent` ends (Linux only; a no-op elsewhere).

    Call it last in a child: a change of user clears it.
    """
    if not IS_LINUX:
        return
    _prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(1)


def become_user(uid: int, gid: int, capability: int | None) -> None:
    """Change this root process to an ordinary user that keeps at most one capability, also across exec.

    Raises OSError where the system does not allow it.
    """
    if capability is not None:
        try:
            # Postgres finds its own programs with access(2), which otherwise ignores capabilities.
            _prctl(_PR_SET_SECUREBITS, _prctl(_PR_GET_SECUREBITS) | _SECBIT_NO_SETUID_FIXUP)
        except PermissionError:
            _prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if capability is not None:
        mask = 1 << capability
        data = (_Data * 2)(_Data(mask, mask, mask), _Data(0, 0, 0))
        if _libc.capset(ctypes.byref(_Header(_CAPABILITY_VERSION_3, 0)), data) != 0:
            raise OSError(ctypes.get_errno(), "capset")
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, *arguments: int) -> int:
    padded = [*arguments, 0, 0, 0, 0][:4]
    result = int(_libc.prctl(ctypes.c_int(option), *(ctypes.c_ulong(value) for value in padded)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")
    return result
