-- For the sweeper, which finds expired operations by it.
create index once_operation_expires_at on once_operation (expires_at);
