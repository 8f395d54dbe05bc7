-- The tenants that live here, or have lived here: see package home. A transaction of a tenant commits only in the region whose row says owned.
create table once_home (
	tenant text collate "C" not null,
	owned  boolean          not null,
	epoch  bigint           not null,  -- grows with every run of a move
	region text collate "C" not null,  -- where the tenant lives, as far as this database knows
	primary key (tenant)
);
-- Moves away from here that have not ended.
create table once_home_move (
	tenant text collate "C" not null,
	target text collate "C" not null,
	primary key (tenant)
);
