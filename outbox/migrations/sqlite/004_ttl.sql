-- How long after its last renewal a node expires, in microseconds: after the clock was set back, a node is judged by its own
-- TTL. null: a node of an earlier release.
alter table once_hold_node add column ttl integer;
