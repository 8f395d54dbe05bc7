-- Package home does not work on MySQL and MariaDB yet. The tables are here so that each capability has the same versions on all databases.
create table once_home (
	tenant varbinary(255) not null,
	owned  boolean        not null,
	epoch  bigint         not null,  -- grows with every run of a move
	region varbinary(64)  not null,  -- where the tenant lives, as far as this database knows
	primary key (tenant)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Moves away from here that have not ended.
create table once_home_move (
	tenant varbinary(255) not null,
	target varbinary(64)  not null,
	primary key (tenant)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
