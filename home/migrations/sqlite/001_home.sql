-- The tenants that live here, or have lived here: see package home. A transaction of a tenant commits only in the region whose row says owned.
create table once_home (
	tenant text    not null,
	owned  integer not null,
	epoch  integer not null,  -- grows with every run of a move
	region text    not null,  -- where the tenant lives, as far as this database knows
	primary key (tenant)
) without rowid;
-- Moves away from here that have not ended.
create table once_home_move (
	tenant text not null,
	target text not null,
	primary key (tenant)
) without rowid;
