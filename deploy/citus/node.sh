#!/bin/sh
# Runs node.sql with the passwords from the environment, so that they appear in no process list. Connects as the
# superuser, with the usual PG* variables; inside a node's container, after roles.sh, as the image's superuser. The image
# sources init scripts that have lost their executable bit, so this script does not exit or replace the shell.
set -e

: "${POSTGRES_PASSWORD:?must be set: the password of the superuser, the same on every node}"
: "${MIGRATOR_PASSWORD:?must be set: the password of kb_migrator}"
: "${SERVICE_PASSWORD:?must be set: the password of kb_service}"
export POSTGRES_PASSWORD MIGRATOR_PASSWORD SERVICE_PASSWORD

if [ -n "${POSTGRES_USER:-}" ]; then
    export PGUSER="$POSTGRES_USER" PGDATABASE="${POSTGRES_DB:-$POSTGRES_USER}"
fi

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 \
    --command '\getenv superuser_password POSTGRES_PASSWORD' \
    --command '\getenv migrator_password MIGRATOR_PASSWORD' \
    --command '\getenv service_password SERVICE_PASSWORD' \
    --file "${NODE_SQL:-$(dirname "$0")/node.sql}"
