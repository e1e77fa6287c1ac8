#!/bin/sh
# Runs roles.sql with the passwords from the environment, so that they appear in no process list.
# Connects with the usual PG* variables; inside the database container, as the image's superuser. The image
# sources init scripts that have lost their executable bit, so this script does not exit or replace the shell.
set -e

: "${MIGRATOR_PASSWORD:?must be set: the password of kb_migrator}"
: "${SERVICE_PASSWORD:?must be set: the password of kb_service}"
export MIGRATOR_PASSWORD SERVICE_PASSWORD

if [ -n "${POSTGRES_USER:-}" ]; then
    export PGUSER="$POSTGRES_USER" PGDATABASE="${POSTGRES_DB:-$POSTGRES_USER}"
fi

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --single-transaction \
    --command '\getenv migrator_password MIGRATOR_PASSWORD' \
    --command '\getenv service_password SERVICE_PASSWORD' \
    --file "${ROLES_SQL:-$(dirname "$0")/roles.sql}"
