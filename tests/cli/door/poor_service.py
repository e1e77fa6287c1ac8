"""A service at a socket, or at a port, that dies in the middle of the first request, or never answers it.

Run it with the path of the socket, or nothing, and with `dies` or `waits`. It prints its port and each request.
"""

import os
import signal
import socket
import sys

path, does = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
listener.bind(path or ("127.0.0.1", 0))
listener.listen()
sys.stdout.write(f"{'' if path else listener.getsockname()[1]}\n")
sys.stdout.flush()
while True:
    connection, _ = listener.accept()
    with connection:
        request = b""
        while piece := connection.recv(65536):
            request += piece
            if request.startswith(b"GET / "):
                if request.endswith(b"\r\n\r\n"):
                    connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
                    request = b""
            elif b"\r\n\r\n" in request:
                if does == "dies":
                    os.kill(os.getpid(), signal.SIGKILL)
                sys.stdout.write("asked\n")
                sys.stdout.flush()
