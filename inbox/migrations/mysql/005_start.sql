-- Numbers after which a sender goes on since it was restored from a backup: see Inbox.Renumber.
create table once_inbox_start (
	consumer varbinary(64)  not null,
	source   varbinary(255) not null,
	seq      bigint         not null,  -- the first message of each key has the next number
	primary key (consumer, source, seq)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
