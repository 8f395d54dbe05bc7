-- Parts of a work, each of which one process holds at a time: the relays of an outbox, for example.
-- No row is ever deleted: a fence that begins again would let a former holder pass.
create table once_hold (
	work    text collate "C" not null,  -- such as outbox
	part    smallint         not null,
	node    text collate "C" not null,  -- that has taken it; it holds it as long as its row in once_hold_node has not expired. '' is none
	fence   bigint           not null,  -- grows with every holder
	primary key (work, part)
);
-- The processes among which the parts are spread. Each of them renews its row, and no other.
create table once_hold_node (
	work    text collate "C" not null,
	node    text collate "C" not null,
	expires timestamptz      not null,  -- from then on other nodes may take its parts
	leaving smallint         not null,  -- 1: it gives up its parts, and takes none
	primary key (work, node)
) with (fillfactor = 50);
