-- The number after which new keys begin: see Box.Renumber. It has one row. 0: they begin at 1.
create table once_stream_start (
	id  integer primary key,  -- 1
	seq integer not null
);
insert into once_stream_start (id, seq) values (1, 0);
