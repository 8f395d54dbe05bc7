-- What the receiver of the events writes: see receiver.go. No constraint keeps it from booking an event twice or
-- out of order. The inbox does that, and the demo counts.

create table booking (
	tenant     text   not null,
	id         text   not null,
	charge_id  text   not null,
	topic      text   not null,
	place      bigint not null, -- among the bookings of the topic and charge: 1, 2, 3, ... in the order of booking
	seq        bigint not null, -- of the event
	event_id   text   not null,
	source     text   not null,
	event_type text   not null,
	subject    text   not null, -- the id of the charge or refund
	amount     bigint not null,
	booked_at  text   not null,
	primary key (tenant, id)
);

create index booking_of_charge on booking (tenant, charge_id, topic, place);

-- The newest refund event of each charge.
create table latest_refund (
	tenant     text   not null,
	charge_id  text   not null,
	seq        bigint not null,
	event_type text   not null,
	subject    text   not null,
	primary key (tenant, charge_id)
);
