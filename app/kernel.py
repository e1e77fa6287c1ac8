"""Linux functions that Python lacks: process controls, capabilities, system calls, memory and cores."""

import ctypes
import os
import sys

IS_LINUX = sys.platform.startswith("linux")

# Numbers from malloc.h, linux/prctl.h and linux/capability.h.
_M_MMAP_THRESHOLD = -3
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

# Loaded here so that a forked child does not have to load a library.
_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def prctl(option: int, *arguments: int) -> int:
    """Call prctl(2). Raises OSError."""
    padded = [*arguments, 0, 0, 0, 0][:4]
    result = int(_libc.prctl(ctypes.c_int(option), *(ctypes.c_ulong(value) for value in padded)))
    return _checked(result, f"prctl {option}")


def syscall(number: int, *arguments: int) -> int:
    """Make a system call by its number on this architecture; a pointer is given as an address. Raises OSError."""
    result = int(_libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(value) for value in arguments)))
    return _checked(result, f"system call {number}")


def die_with_parent(signal_number: int, parent: int) -> None:
    """Ask the kernel to send this process a signal when `parent` ends (Linux only); end now if it has ended.

    Call it last in a child: a change of user clears it.
    """
    if IS_LINUX:
        prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(1)


def forbid_inspection() -> None:
    """Hide the memory and the environment of this process from processes of the same user (Linux only).

    It also prevents core dumps; root can still attach a debugger.
    """
    if IS_LINUX:
        prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """Ignore set-user-id bits and file capabilities from now on (Linux only)."""
    if IS_LINUX:
        prctl(_PR_SET_NO_NEW_PRIVS, 1)


def keep_capabilities(mask: int) -> None:
    """Give up all capabilities except those in `mask`, a set of bits below 32. Raises OSError."""
    data = (_Data * 2)(_Data(mask, mask, mask), _Data(0, 0, 0))
    _checked(_libc.capset(ctypes.byref(_Header(_CAPABILITY_VERSION_3, 0)), data), "capset")


def drop_capabilities() -> None:
    """Give up all capabilities (Linux only). Raises OSError."""
    if IS_LINUX:
        prctl(PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
        keep_capabilities(0)


def has_capability(number: int) -> bool:
    """Whether this process has a capability; elsewhere than on Linux, whether it is root."""
    if not IS_LINUX:
        return os.geteuid() == 0
    header, data = _Header(_CAPABILITY_VERSION_3, 0), (_Data * 2)()
    _checked(_libc.capget(ctypes.byref(header), data), "capget")
    return bool(data[number // 32].effective >> number % 32 & 1)


def count_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def return_large_blocks(least: int) -> None:
    """Have the C library give blocks of at least so many bytes back to the kernel once they are free (glibc only).

    By itself it keeps blocks of up to 32 MiB for threads, also in `release_free_memory`.
    """
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(ctypes.c_int(_M_MMAP_THRESHOLD), ctypes.c_int(least))


def release_free_memory() -> None:
    """Give memory that is free inside the C library back to the kernel (glibc only)."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(ctypes.c_size_t(0))


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result
