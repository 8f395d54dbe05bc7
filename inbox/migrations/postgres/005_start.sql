-- Numbers after which a sender goes on since it was restored from a backup: see Inbox.Renumber.
create table once_inbox_start (
	consumer text collate "C" not null,
	source   text collate "C" not null,
	seq      bigint           not null,  -- the first message of each key has the next number
	primary key (consumer, source, seq)
);
