-- What was done to a key, for those who look at it.
create index once_audit_key on once_audit (key_hash, scope, id);
