"""A seccomp filter: the few system calls that reading a file in memory needs are allowed, all others fail.

It is written as a BPF program, because libseccomp is missing on many machines.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from app.kernel import syscall

# From linux/filter.h and linux/seccomp.h: BPF instructions, and offsets in the data that describe a call.
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
    """Numbers of system calls. `allowed` need no look at their arguments, `opening` are those that open files."""

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
