-- Tokens of platform administrators, which belong to no tenant. The service reads and adds them by functions only.
create table revoked_platform_tokens (
  token_id text primary key check (length(token_id) between 1 and 255),
  revoked_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
comment on column revoked_platform_tokens.token_id is 'The jti of the token';
comment on column revoked_platform_tokens.expires_at is 'The token has expired by then, and the row is deleted';

create or replace function tenancy.list_revoked_tokens()
returns table (token_id text, revoked_at timestamptz, expires_at timestamptz)
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
  select r.token_id, r.revoked_at, r.expires_at from public.revoked_platform_tokens r
   where r.expires_at > clock_timestamp()
$$;
revoke all on function tenancy.list_revoked_tokens() from public;
grant execute on function tenancy.list_revoked_tokens() to kb_app;

-- Returns no row when there are `p_most` others. A second revocation never shortens the first.
create or replace function tenancy.revoke_token(p_token_id text, p_expires_at timestamptz, p_most integer, p_actor text)
returns table (revoked_at timestamptz, expires_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  lock table public.revoked_platform_tokens in share row exclusive mode;
  delete from public.revoked_platform_tokens r where r.expires_at <= clock_timestamp();
  if (select count(*) from public.revoked_platform_tokens r where r.token_id <> p_token_id) >= p_most then
    return;
  end if;
  insert into public.platform_audit (actor, action, detail)
  values (p_actor, 'token.revoke', jsonb_build_object('token_id', p_token_id));
  return query
    insert into public.revoked_platform_tokens as r (token_id, expires_at) values (p_token_id, p_expires_at)
    on conflict (token_id) do update set expires_at = greatest(r.expires_at, excluded.expires_at)
    returning r.revoked_at, r.expires_at;
end $$;
revoke all on function tenancy.revoke_token(text, timestamptz, integer, text) from public;
grant execute on function tenancy.revoke_token(text, timestamptz, integer, text) to kb_app;
