-- Topics that do not go, as the relays say that deliver them. A row counts while the node of its relay lives.
create table once_outbox_wait (
	topic  text             not null,
	node   text             not null,  -- of once_hold_node
	reason text             not null,  -- such as down
	since  integer          not null,
	error  text             not null,
	primary key (topic, node)
) without rowid;
