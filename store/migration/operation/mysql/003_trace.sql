-- The trace of the call that has written an operation, so that a replay can link to it.
-- What is running or unknown is listed by the index of expires_at, which is null there.
alter table once_operation add column trace varbinary(255);
