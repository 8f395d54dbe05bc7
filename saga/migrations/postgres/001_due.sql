-- Sagas that wait, and when they go on. Those that a process works on have no row here, unless they were woken meanwhile.
create table once_saga_due (
	scope  text collate "C" not null,  -- of the operation: saga/ and the tenant
	key    text collate "C" not null,
	due_at timestamptz      not null,
	name   text collate "C" not null,  -- of the definition
	primary key (scope, key)
);
create index once_saga_due_at on once_saga_due (name, due_at);
create index once_saga_due_scope on once_saga_due (name, scope, due_at);
