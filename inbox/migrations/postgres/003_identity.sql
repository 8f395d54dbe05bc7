-- What is compared of a message with a known ID besides its payload: a hash of topic, key and type. '': of a marker; null: an older program has noted it.
alter table once_inbox add column envelope bytea;
-- The last Seq of a key and the hashes of its last IDs, by which a number that was given twice is noticed. null: none is known.
alter table once_inbox_position add column recent bytea;
