-- Parts of a work, each of which one process holds at a time: the relays of an outbox, for example.
-- No row is ever deleted: a fence that begins again would let a former holder pass.
create table once_hold (
	work    text    not null,  -- such as outbox
	part    integer not null,
	node    text    not null,  -- that has taken it; it holds it as long as its row in once_hold_node has not expired. '' is none
	fence   integer not null,  -- grows with every holder
	primary key (work, part)
) without rowid;
-- The processes among which the parts are spread. Each of them renews its row, and no other.
create table once_hold_node (
	work    text    not null,
	node    text    not null,
	expires integer not null,  -- from then on other nodes may take its parts
	leaving integer not null,  -- 1: it gives up its parts, and takes none
	primary key (work, node)
) without rowid;
