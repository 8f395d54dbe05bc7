package testenv

// WithoutAdvisoryLocks makes a schema with advisory locks that are always granted and do nothing, as on CockroachDB. The schema
// must come before pg_catalog in the search path.
const WithoutAdvisoryLocks = `create schema without_locks;
create function without_locks.pg_try_advisory_xact_lock(bigint) returns boolean language sql as 'select true';
create function without_locks.pg_try_advisory_xact_lock_shared(bigint) returns boolean language sql as 'select true';
create function without_locks.pg_advisory_xact_lock(bigint) returns void language sql as 'select'`

// WithoutAdvisoryLocksPath is a search path for the schema of WithoutAdvisoryLocks.
const WithoutAdvisoryLocksPath = "without_locks,pg_catalog,public"

// UnlistedLocks makes a schema with an empty pg_locks, as on servers that keep advisory locks without listing them. The schema must
// come before pg_catalog in the search path.
const UnlistedLocks = `create schema unlisted_locks; create view unlisted_locks.pg_locks as select * from pg_catalog.pg_locks where false`

// UnlistedLocksPath is a search path for the schema of UnlistedLocks.
const UnlistedLocksPath = "unlisted_locks,pg_catalog,public"
