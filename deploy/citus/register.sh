#!/bin/sh
# Tells the coordinator its own address and those of the workers: run once after node.sh has run on all nodes, and again
# to add a node. Connects to the coordinator as the superuser, with the usual PG* variables.
#
#   COORDINATOR=database:5432 WORKERS='node-1:5432 node-2:5432' deploy/citus/register.sh
#
# The nodes reach each other, and the service reaches them, by these addresses.
set -e

: "${COORDINATOR:?must be set: HOST:PORT of the coordinator}"
: "${WORKERS:?must be set: HOST:PORT of each worker, separated by spaces}"

run() {
    psql --no-psqlrc --quiet --no-align --tuples-only --set ON_ERROR_STOP=1 \
        --set host="${1%:*}" --set port="${1##*:}" --output /dev/null
}

run "$COORDINATOR" <<'SQL'
select citus_set_coordinator_host(:'host', :port);
SQL
for worker in $WORKERS; do
    # A node that is known already keeps its place.
    run "$worker" <<'SQL'
select citus_add_node(:'host', :port);
SQL
done
# A node that is added later needs the tables that all nodes have before it can get tenants.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --output /dev/null --command "select replicate_reference_tables()"
psql --no-psqlrc --no-align --tuples-only --set ON_ERROR_STOP=1 \
    --command "select nodename || ':' || nodeport || case groupid when 0 then ' (coordinator)' else '' end
                 from pg_dist_node where noderole = 'primary' order by groupid"
