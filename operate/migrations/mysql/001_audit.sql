-- What an operator has done to stored operations: see package operate.
create table once_audit (
	id       bigint         not null auto_increment primary key,
	at       bigint         not null,
	who      blob           not null,
	action   varchar(16)    not null,        -- forget or release
	scope    varbinary(512) not null,
	key_hash varchar(16)    not null,
	reason   blob           not null,
	detail   blob           not null         -- what was changed
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
