"""Names and addresses of hosts."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host's name or address leads to this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
