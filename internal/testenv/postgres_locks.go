package testenv

// WithoutAdvisoryLocks makes a schema, which must be in front of pg_catalog in the search path,
// whose advisory locks are always granted and do nothing, as those of CockroachDB.
const WithoutAdvisoryLocks = `create schema without_locks;
create function without_locks.pg_try_advisory_xact_lock(bigint) returns boolean language sql as 'select true';
create function without_locks.pg_try_advisory_xact_lock_shared(bigint) returns boolean language sql as 'select true';
create function without_locks.pg_advisory_xact_lock(bigint) returns void language sql as 'select'`

// WithoutAdvisoryLocksPath is such a search path.
const WithoutAdvisoryLocksPath = "without_locks,pg_catalog,public"

// UnlistedLocks makes a schema, which must be in front of pg_catalog in the search path, whose pg_locks is empty: as
// on servers that keep advisory locks and do not list them.
const UnlistedLocks = `create schema unlisted_locks; create view unlisted_locks.pg_locks as select * from pg_catalog.pg_locks where false`

// UnlistedLocksPath is such a search path.
const UnlistedLocksPath = "unlisted_locks,pg_catalog,public"
