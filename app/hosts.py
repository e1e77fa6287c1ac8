"""Bind the addresses that a service listens on, and tell whether an address is loopback."""

import ipaddress
import socket

from app.errors import ConfigurationError


def is_loopback(host: str) -> bool:
    """Whether a host's name or address leads to this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


METRICS = "KB_METRICS_HOST and KB_METRICS_PORT"


def bind(host: str, port: int, *, host_setting: str, port_setting: str, remedy: str) -> socket.socket:
    """Bind an address; the socket does not listen yet, and never blocks. Raises ConfigurationError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise ConfigurationError(host_setting, f"{host} is not an address of this machine") from None
    listener = socket.socket(family, kind, protocol)
    listener.setblocking(False)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            port_setting, f"cannot listen on {host}, port {port} ({error.strerror})", remedy
        ) from None
    return listener


def bind_metrics(host: str, port: int) -> socket.socket:
    """Bind the address of the metrics. Raises ConfigurationError."""
    return bind(host, port, host_setting=METRICS, port_setting=METRICS, remedy="choose others")
