"""What a parser that is broken into tries, in the real child after the real confinement.

`install` replaces the reader of plain text. Each attempt returns what it reached, or raises OSError.
"""

import ctypes
import errno
import importlib
import json
import mmap
import os
import resource
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.process import confinement
from app.documents.readers import builder

REACHED = "reached"
SECRET = b"the secret of the service"
_libc = ctypes.CDLL(None, use_errno=True)
PR_GET_DUMPABLE = 3
_PR_GET_NO_NEW_PRIVS = 39
_PTRACE_SEIZE = 0x4206
_CLONE_NEWUSER = 0x10000000
# Calls whose numbers are equal on x86-64 and aarch64.
_IO_URING_SETUP, _PIDFD_OPEN, _PIDFD_SEND_SIGNAL, _OPENAT2 = 425, 434, 424, 437
_AT_FDCWD = -100


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def install(given: str) -> None:
    """Let the reader of plain text make the attempts, after the protections that the test names."""
    options = json.loads(given)
    if (kept := options["protections"]) is not None:
        confinement.PROTECTIONS = {n: apply for n, apply in confinement.PROTECTIONS.items() if n in kept}

    limit = confinement._limit

    def limit_others(kind: int, soft: int, hard: int) -> bool:
        return kind == options["unlimited"] or limit(kind, soft, hard)

    confinement._limit = limit_others

    def parse(text: str, limits: ParseLimits) -> ParsedDocument:
        attempts = Attempts(json.loads(text.removeprefix("Places: "))).all()
        return ParsedDocument("text", json.dumps({name: _try(attempt) for name, attempt in attempts.items()}))

    builder.parse_plain = parse


def _try(attempt: Callable[[], Any]) -> str:
    try:
        result = attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "?")
    except Exception as error:
        return type(error).__name__
    return REACHED if result is None or result else "nothing"


class Attempts:
    """The attempts on a service that the victim describes in `places`."""

    def __init__(self, places: dict[str, Any]) -> None:
        self._parent = places["parent"]
        self._places = places

    def all(self) -> dict[str, Callable[[], Any]]:
        """By name, in the order in which they are made."""
        parent, places = self._parent, self._places
        private, folder = Path(places["private"]), Path(places["folder"])
        return {
            "own descriptors": lambda: [fd for fd in range(4, 200) if _is_open(fd)],
            "own environment": lambda: SECRET.decode() in str(os.environ),
            "root": lambda: os.geteuid() == 0,
            "a dump": lambda: _libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1,
            "new privileges": lambda: _libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0,
            "environment": lambda: SECRET in _read(f"/proc/{parent}/environ"),
            "memory by file": self._read_memory_file,
            "memory by call": self._read_memory,
            "ptrace": lambda: _call("ptrace", _PTRACE_SEIZE, parent, 0, 0),
            "read the key": lambda: SECRET in _read(private / "key"),
            "read another user's file": lambda: SECRET in _read(private / "of-another"),
            "read a file": lambda: _read("/etc/passwd"),
            "read by openat2": self._open_by_openat2,
            "list a folder": lambda: os.listdir("/"),
            "look at a file": lambda: os.stat("/etc/passwd"),
            "import": lambda: importlib.import_module("colorsys"),
            "create a file": lambda: _write(folder / "created", b""),
            "write a file": lambda: _write(folder / "written", b"x" * 10_000),
            "replace a file": lambda: os.rename(folder / "existing", folder / "replaced"),
            "delete a file": lambda: os.unlink(folder / "deletable"),
            "TCP": lambda: _connect(socket.AF_INET, socket.SOCK_STREAM, tuple(places["tcp"])),
            "UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", tuple(places["udp"])),
            "Unix": lambda: _connect(socket.AF_UNIX, socket.SOCK_STREAM, places["unix"]),
            "abstract Unix": lambda: _connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + places["abstract"]),
            "listen": _listen,
            "a pair of sockets": socket.socketpair,
            "signal": lambda: os.kill(parent, 0),
            "signal by pidfd": self._signal_by_pidfd,
            "limits of the service": lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE),
            "priority of the service": lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
            "fork": _fork,
            "thread": _start_thread,
            "exec": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
            "exec in place": _exec_nothing,
            "chroot": lambda: os.chroot("/"),
            "io_uring": self._set_up_io_uring,
            "file in memory": lambda: os.memfd_create("x"),
            "shared memory": lambda: _call("shmget", 0, 4096, 0o1600),
            "more memory": lambda: mmap.mmap(-1, 8 << 30),
            "machine code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC),
            "core dumps": lambda: resource.getrlimit(resource.RLIMIT_CORE) != (0, 0),
            "namespace": lambda: _call("unshare", _CLONE_NEWUSER),
            "processor time": lambda: resource.getrlimit(resource.RLIMIT_CPU)[1] > 3600 or _is_unlimited(),
        }

    def _read_memory_file(self) -> bool:
        file = os.open(f"/proc/{self._parent}/mem", os.O_RDONLY)
        return os.pread(file, len(SECRET), self._places["address"]) == SECRET

    def _read_memory(self) -> bool:
        buffer = ctypes.create_string_buffer(len(SECRET))
        local = _Vector(ctypes.addressof(buffer), len(SECRET))
        remote = _Vector(self._places["address"], len(SECRET))
        _call("process_vm_readv", self._parent, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        return buffer.raw == SECRET

    def _open_by_openat2(self) -> bool:
        how = (ctypes.c_uint64 * 3)()
        return _call("syscall", _OPENAT2, _AT_FDCWD, b"/etc/passwd", ctypes.byref(how), ctypes.sizeof(how))

    def _signal_by_pidfd(self) -> bool:
        file = _libc.syscall(_PIDFD_OPEN, self._parent, 0)
        if file < 0:
            raise OSError(ctypes.get_errno(), "pidfd_open")
        return _call("syscall", _PIDFD_SEND_SIGNAL, file, 0, None, 0)

    def _set_up_io_uring(self) -> bool:
        parameters = ctypes.create_string_buffer(120)
        return _call("syscall", _IO_URING_SETUP, 1, parameters)


def _call(name: str, *arguments: Any) -> bool:
    function = getattr(_libc, name)
    function.restype = ctypes.c_int if name in {"shmget", "unshare"} else ctypes.c_long
    converted = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    if function(*converted) < 0:
        raise OSError(ctypes.get_errno(), name)
    return True


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _read(path: Path | str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: Path, data: bytes) -> bool:
    with open(path, "wb", buffering=0) as file:
        return file.write(data) == len(data)


def _connect(family: int, kind: int, address: Any) -> bool:
    with socket.socket(family, kind) as client:
        client.connect(address)
    return True


def _listen() -> bool:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
    return True


def _fork() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitpid(child, 0)[0] == child


def _start_thread() -> bool:
    thread = threading.Thread(target=len, args=("",))
    thread.start()
    thread.join()
    return True


def _exec_nothing() -> bool:
    try:
        os.execv("/nothing", ["nothing"])  # noqa: S606 - it is the attempt
    except FileNotFoundError:
        return True


def _is_unlimited() -> bool:
    return resource.getrlimit(resource.RLIMIT_CPU)[1] == resource.RLIM_INFINITY
