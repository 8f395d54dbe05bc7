-- The number after which new keys begin: see Box.Renumber. It has one row. 0: they begin at 1.
-- ignore: a process may have died behind this statement.
create table once_stream_start (
	id  smallint not null,  -- 1
	seq bigint   not null,
	primary key (id)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
insert ignore into once_stream_start (id, seq) values (1, 0);
