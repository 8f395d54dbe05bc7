-- The trace of the call that has written an operation, so that a replay can link to it.
alter table once_operation add column if not exists trace text;
-- For listing what is running or unknown. What is done is not in it, nor is the end of a lease.
create index if not exists once_operation_unfinished on once_operation (scope, key) where state <> 2;
