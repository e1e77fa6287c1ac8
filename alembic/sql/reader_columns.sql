-- The columns of a database that was made before entries had readers. Functions of several revisions read them.

alter table entries add column if not exists readers text[]
  check (/* one server */ readers is null or is_reader_list(readers) /* Citus: readers is null */);
alter table embeddings add column if not exists readers text[];
alter table assets add column if not exists readers text[];
alter table if exists former_entries add column if not exists readers text[];
alter table if exists former_embeddings add column if not exists readers text[];
