"""Endpoints confirm their subscriptions, and the service limits its messages to each host over all tenants.

Endpoints that have accepted a message are confirmed. The others are asked.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, run_file, update_each_tenant

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_file("send_turns")
    execute_script("""
        alter table subscriptions
          add column if not exists confirmation text not null default 'pending'
            check (confirmation in ('pending', 'confirmed', 'refused')),
          add column if not exists confirmed_at timestamptz,
          add column if not exists challenges integer not null default 0,
          add column if not exists challenged_at timestamptz,
          add column if not exists challenge_at timestamptz not null default clock_timestamp();
        comment on column subscriptions.retry_at is
          'Nothing is sent to the endpoint before then: it fails, or its host has had its messages of the moment';
        comment on column subscriptions.confirmation is
          'Whether the endpoint has answered a challenge; nothing is sent to it before';
        comment on column subscriptions.challenges is
          'Challenges sent since the subscription was created or the owner asked again';
        comment on column subscriptions.challenge_at is 'While pending: the time of the next challenge';
    """)
    update_each_tenant("""
        update subscriptions set confirmation = 'confirmed', confirmed_at = last_delivered_at
         where tenant_id = tenant and confirmation = 'pending' and last_delivered_at is not null
    """)


def downgrade() -> None:
    execute_script("""
        alter table subscriptions
          drop column confirmation, drop column confirmed_at, drop column challenges,
          drop column challenged_at, drop column challenge_at;
        comment on column subscriptions.retry_at is 'While the endpoint fails: nothing is sent to it before then';
        drop function tenancy.take_turns(text, integer, integer);
        drop table send_turns;
    """)
