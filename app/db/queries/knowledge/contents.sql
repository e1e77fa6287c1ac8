-- The bytes of assets, and the text extracted from them.

-- name: original
select name, media_type, original as data, generation, given_title from assets where tenant_id = :tenant_id and id = :id;

-- name: content
select id, name, media_type, byte_size, sha256, generation from assets where tenant_id = :tenant_id and id = :id;

-- name: content_part
select substring(original from :start::integer for :length::integer) from assets
 where tenant_id = :tenant_id and id = :id and generation = :generation;

-- name: extracted_text
select extracted_text as text from assets where tenant_id = :tenant_id and id = :id;
