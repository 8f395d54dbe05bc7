-- What runs, waits or is unknown is found by its state, and not among what is done and kept for ever. The index keeps its name, which nodes of an
-- earlier release say. Until they are replaced, their sweeps and gauges read more than before.
alter table once_operation drop index once_operation_expires_at, add index once_operation_expires_at (state, expires_at);
