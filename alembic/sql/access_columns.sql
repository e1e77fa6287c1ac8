-- The columns of a database that was made before entries had readers and writers. Functions of several revisions read them.

alter table entries add column if not exists readers text[]
  check (/* one server */ readers is null or is_principal_list(readers) /* Citus: readers is null */);
alter table entries add column if not exists writers text[]
  check (/* one server */ writers is null or is_principal_list(writers) /* Citus: writers is null */);
alter table lexeme_statistics add column if not exists principal text collate "C" not null default 'everyone';
alter table embeddings add column if not exists readers text[];
alter table assets add column if not exists readers text[];
alter table assets add column if not exists writers text[];
alter table if exists former_entries add column if not exists readers text[];
alter table if exists former_entries add column if not exists writers text[];
alter table if exists former_embeddings add column if not exists readers text[];
alter table if exists sources add column if not exists readers text[];
alter table if exists sources add column if not exists writers text[];
alter table if exists source_items add column if not exists readers text[];
