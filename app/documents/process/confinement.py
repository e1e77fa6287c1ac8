"""Confine the process that reads a file with Landlock and seccomp, so that a broken parser reaches nothing."""

import ctypes
import errno
import math
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.documents.parsed import ParseLimits
from app.kernel import (
    IS_LINUX,
    die_with_parent,
    drop_capabilities,
    forbid_inspection,
    forbid_new_privileges,
    has_capability,
    syscall,
)

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
    try:
        return syscall(_CREATE_RULESET, 0, 0, _QUERY_VERSION) if IS_LINUX else 0
    except OSError:
        return 0


def deny_all(version: int) -> None:
    """Deny all that this version of Landlock can, except open files, after giving up privileges. Raises OSError."""
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
    """Describe what this version of Landlock lacks; None if nothing relevant is missing."""
    if version == 0:
        return "Landlock (Linux 5.13)"
    if version < _NETWORK_VERSION:
        return "Landlock for connections (Linux 6.7)"
    if version < _SCOPE_VERSION:
        return "Landlock for signals (Linux 6.12)"
    return None


# From linux/filter.h and linux/seccomp.h: BPF instructions, and offsets in the data that describe a call. The filter is
# a BPF program, because libseccomp is missing on many machines.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_X32_CALLS = 0x40000000
_PROT_EXEC = 4
_AT_EMPTY_PATH = 0x1000
_ITIMER_PROF = 2


@dataclass(frozen=True, slots=True)
class _Architecture:
    """Numbers of system calls: `allowed` ones need no check of their arguments, `opening` ones open files."""

    audit: int
    seccomp: int
    allowed: tuple[int, ...]
    opening: tuple[int, ...]
    mapping: tuple[int, ...]
    newfstatat: int
    tgkill: int
    setitimer: int


# In this order: read, write, readv, writev, pread64, close, lseek, fstat; munmap, mremap, brk, madvise, membarrier;
# futex, sched_yield, rt_sigaction, rt_sigprocmask, rt_sigreturn, sigaltstack, restart_syscall; clock_gettime,
# clock_getres, gettimeofday, nanosleep, clock_nanosleep; getpid, gettid, getrusage, sysinfo, sched_getaffinity, getcpu,
# getrandom, exit, exit_group; on x86-64 also time. Mapping: mmap, mprotect. Opening: openat, openat2, open, creat.
_ARCHITECTURES = {
    "x86_64": _Architecture(
        audit=0xC000003E,
        seccomp=317,
        allowed=(
            *(0, 1, 19, 20, 17, 3, 8, 5, 11, 25, 12, 28, 324),
            *(202, 24, 13, 14, 15, 131, 219, 228, 229, 96, 35, 230),
            *(39, 186, 98, 99, 204, 309, 318, 60, 231, 201),
        ),
        opening=(257, 437, 2, 85),
        mapping=(9, 10),
        newfstatat=262,
        tgkill=234,
        setitimer=38,
    ),
    "aarch64": _Architecture(
        audit=0xC00000B7,
        seccomp=277,
        allowed=(
            *(63, 64, 65, 66, 67, 57, 62, 80, 215, 216, 214, 233, 283),
            *(98, 124, 134, 135, 139, 132, 128, 113, 114, 169, 101, 115),
            *(172, 178, 165, 179, 123, 168, 278, 93, 94),
        ),
        opening=(56, 437),
        mapping=(222, 226),
        newfstatat=79,
        tgkill=131,
        setitimer=103,
    ),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def is_supported() -> bool:
    """Whether the numbers of this machine's system calls are known."""
    return sys.platform == "linux" and sys.maxsize > 1 << 32 and os.uname().machine in _ARCHITECTURES


def allow_reading_only() -> None:
    """Allow memory, clocks, and reading and writing what is open, in all threads. Raises OSError.

    Files cannot be opened, nor memory made executable. The caller must have given up gaining privileges.
    """
    machine = _ARCHITECTURES[os.uname().machine]
    code = b"".join(_write_filter(machine))
    instructions = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(instructions))
    syscall(machine.seccomp, _SET_MODE_FILTER, _ALL_THREADS, ctypes.addressof(program))


def _write_filter(machine: _Architecture) -> Iterator[bytes]:
    refuse = _step(_RETURN, _ERROR | errno.EACCES)
    allow = _step(_RETURN, _ALLOW)
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_EQUAL, machine.audit, then=1) + _step(_RETURN, _KILL)
    yield _step(_LOAD, _NUMBER)
    yield _step(_AT_LEAST, _X32_CALLS, otherwise=1) + _step(_RETURN, _KILL)
    for number in machine.allowed:
        yield _step(_EQUAL, number, otherwise=1) + allow
    for number in machine.opening:
        yield _step(_EQUAL, number, otherwise=1) + refuse
    for number in machine.mapping:
        yield _step(_EQUAL, number, otherwise=4) + _argument(2)
        yield _step(_ANY_BIT, _PROT_EXEC, otherwise=1) + refuse + allow
    yield _step(_EQUAL, machine.newfstatat, otherwise=4) + _argument(3)
    yield _step(_ANY_BIT, _AT_EMPTY_PATH, otherwise=1) + allow + refuse
    # Its own end, by abort().
    yield _step(_EQUAL, machine.tgkill, otherwise=4) + _argument(0)
    yield _step(_EQUAL, os.getpid(), otherwise=1) + allow + refuse
    # A limit of processor time, which ends the process; not the timer that limits the whole.
    yield _step(_EQUAL, machine.setitimer, otherwise=4) + _argument(0)
    yield _step(_EQUAL, _ITIMER_PROF, otherwise=1) + allow + refuse
    # The C library falls back to an older call after this error.
    yield _step(_RETURN, _ERROR | errno.ENOSYS)


def _argument(index: int) -> bytes:
    # The lower half, which comes first on these machines.
    return _step(_LOAD, _ARGUMENTS + 8 * index)


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


_GRACE_SECONDS = 5.0
# Not an account of the system, nor in a range from which programs choose ids.
_USER_INSTEAD_OF_ROOT = 65_530
# From linux/capability.h. Without CAP_KILL, the service could not end a process of another user.
_CAP_KILL, _CAP_SETGID, _CAP_SETUID = 5, 6, 7


class Unprotected(Exception):
    """The system lacks a protection; the text names it."""


def confine(limits: ParseLimits) -> list[str]:
    """Apply all protections in their order; return the names of protections that the system lacks."""
    missing = []
    for name, apply in PROTECTIONS.items():
        try:
            apply(limits)
        except Unprotected as error:
            missing.append(str(error))
        except OSError:
            missing.append(name)
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
    """Limit memory and time, and forbid processes, threads and files. The timer is for systems that do not report the
    end of the parent."""
    seconds = math.ceil(limits.seconds)
    signal.setitimer(signal.ITIMER_REAL, limits.wall_seconds + _GRACE_SECONDS)
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
    version = find_version()
    if version:
        deny_all(version)
    if gap := describe_gap(version):
        raise Unprotected(gap)


def _forbid_descriptors(limits: ParseLimits) -> None:
    # Open descriptors stay usable.
    if not _limit(resource.RLIMIT_NOFILE, 0, 0):
        raise Unprotected("no new descriptors")


def _filter_system_calls(limits: ParseLimits) -> None:
    if not is_supported():
        raise Unprotected("filter of system calls (Linux on x86-64 or aarch64)")
    allow_reading_only()


def _limit(kind: int, soft: int, hard: int) -> bool:
    _, allowed = resource.getrlimit(kind)
    most = hard if allowed == resource.RLIM_INFINITY else min(hard, allowed)
    try:
        resource.setrlimit(kind, (min(soft, most), most))
    except (OSError, ValueError):  # macOS refuses some of them
        return False
    return True


PROTECTIONS: dict[str, Callable[[ParseLimits], None]] = {
    "own user": _become_another_user,
    "no capabilities": lambda limits: drop_capabilities(),
    "no inspection": lambda limits: forbid_inspection(),
    "no new privileges": lambda limits: forbid_new_privileges(),
    "limits of resources": _limit_resources,
    "Landlock": _restrict_by_landlock,
    "no new descriptors": _forbid_descriptors,
    "filter of system calls": _filter_system_calls,
}
"""In this order: a change of user clears later ones, and the filter denies the calls of the others. Each raises
Unprotected or OSError where the system does not allow it."""
