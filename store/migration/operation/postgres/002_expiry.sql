-- For the sweeper, which finds expired operations by it. On a large table, this can be
-- made beforehand without stopping writers: create index concurrently, with this text.
create index if not exists once_operation_expires_at on once_operation (expires_at) where state = 2;
