"""Let a command ask the running service of the same user, instead of opening the database.

`serve` listens on a Unix socket in a folder that only its user can enter. The socket's name and the key of each request
derive from everything that determines an answer: the code, the settings and the database with its password. A command
with another version, other settings or another data folder finds no socket, and a process that does not have the
database's password gets no answer. Without an answer, the command opens the database, with the same result. A command
that writes does so only if no service has got it; otherwise it would be done twice.
"""
