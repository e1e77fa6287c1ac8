-- What callers may write, by the role of their path. The service itself, kb_app, may write every table of a tenant.

-- Readers write what they own, and the work that follows from it.
grant insert, update, delete on feedback, saved_searches, subscriptions to kb_reader;
grant insert, update on jobs to kb_reader;
grant delete on entry_changes to kb_reader;
grant update on deliveries to kb_reader;
grant insert on audit to kb_reader;

-- Creators write knowledge, and triggers what follows from it: vectors to compute, former versions, statistics.
grant insert, update, delete on entries, assets, embeddings, pending_embeddings, entry_changes, former_entries,
  former_embeddings, sources, source_items, jobs to kb_creator;
grant insert, update on corpus_statistics, tag_statistics, vector_statistics, asset_statistics, usage_by_day, permissions
  to kb_creator;

-- Admins of a tenant change its settings and its model, create and revoke keys, revoke tokens, and erase. tenants.sql grants its columns.
grant insert, update, delete on model_changes, revoked_tokens, erasures, erasure_items, released_texts, kept_versions,
  vector_statistics to kb_admin;
grant insert, delete on api_keys to kb_admin;
grant update on searches to kb_admin;
