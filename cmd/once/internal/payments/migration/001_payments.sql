-- One text for PostgreSQL and SQLite. Amounts are integers in minor units, times
-- are RFC 3339 in UTC. Every key begins with the tenant: nothing refers across.

create table charge (
	tenant     text   not null,
	id         text   not null,
	amount     bigint not null check (amount > 0),
	refunded   bigint not null default 0,
	currency   text   not null,
	customer   text   not null,
	created_at text   not null,
	primary key (tenant, id),
	constraint refunds_within_charge check (refunded between 0 and amount)
);

create table refund (
	tenant     text   not null,
	id         text   not null,
	charge_id  text   not null,
	amount     bigint not null check (amount > 0),
	status     text   not null check (status in ('succeeded', 'voided')),
	created_at text   not null,
	voided_at  text,
	primary key (tenant, id),
	foreign key (tenant, charge_id) references charge (tenant, id)
);

create index refund_of_charge on refund (tenant, charge_id);

-- Only inserted into. The entries of one posting are equal in amount and opposite
-- in direction.
create table ledger_entry (
	tenant     text   not null,
	id         text   not null,
	charge_id  text   not null,
	refund_id  text   not null,
	account    text   not null,
	direction  text   not null check (direction in ('debit', 'credit')),
	amount     bigint not null check (amount > 0),
	created_at text   not null,
	primary key (tenant, id),
	foreign key (tenant, refund_id) references refund (tenant, id)
);

create index ledger_of_charge on ledger_entry (tenant, charge_id, created_at);

create table customer (
	tenant     text   not null,
	id         text   not null,
	name       text   not null,
	email      text   not null,
	version    bigint not null,
	updated_at text   not null,
	primary key (tenant, id)
);
