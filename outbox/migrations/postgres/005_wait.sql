-- Topics that do not go, as the relays say that deliver them. A row counts while the node of its relay lives.
create table once_outbox_wait (
	topic  text collate "C" not null,
	node   text collate "C" not null,  -- of once_hold_node
	reason text             not null,  -- such as down
	since  timestamptz      not null,
	error  text             not null,
	primary key (topic, node)
);
