-- Topics that do not go, as the relays say that deliver them. A row counts while the node of its relay lives.
create table once_outbox_wait (
	topic  varbinary(255)   not null,
	node   varbinary(255)   not null,  -- of once_hold_node
	reason varbinary(64)    not null,  -- such as down
	since  bigint           not null,
	error  blob             not null,
	primary key (topic, node)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
