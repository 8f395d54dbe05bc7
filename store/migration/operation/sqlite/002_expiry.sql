-- For the sweeper, which finds expired operations by it.
create index if not exists once_operation_expires_at on once_operation (expires_at) where state = 2;
