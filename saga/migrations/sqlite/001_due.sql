-- Sagas that wait, and when they go on. Those that a process works on have no row here, unless they were woken meanwhile.
create table once_saga_due (
	scope  text    not null,  -- of the operation: saga/ and the tenant
	key    text    not null,
	due_at integer not null,  -- milliseconds since 1970
	name   text    not null,  -- of the definition
	primary key (scope, key)
) without rowid;
create index once_saga_due_at on once_saga_due (name, due_at);
create index once_saga_due_scope on once_saga_due (name, scope, due_at);
