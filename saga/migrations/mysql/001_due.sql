-- Sagas that wait, and when they go on. Those that a process works on have no row here, unless they were woken meanwhile.
create table once_saga_due (
	scope  varbinary(512) not null,  -- of the operation: saga/ and the tenant
	`key`  varbinary(255) not null,
	due_at bigint         not null,  -- milliseconds since 1970, by the database's clock
	name   varbinary(255) not null,  -- of the definition
	primary key (scope, `key`),
	index once_saga_due_at (name, due_at),
	index once_saga_due_scope (name, scope, due_at)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
