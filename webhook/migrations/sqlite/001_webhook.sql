-- Endpoints of tenants, to which webhooks are sent: see package webhook. What a person has set, and nothing that changes while the relays run:
-- every Send reads these rows.
create table once_webhook_endpoint (
	id               integer primary key autoincrement,
	uid              text    not null,  -- ep_..., for people
	part             integer not null,  -- 0 to 63, a hash of uid; one relay at a time holds a part
	tenant           text    not null,
	url              text    not null,
	types            text    not null,  -- patterns, each between blanks: ' refund.* payment.failed '
	description      text    not null,
	headers          blob    not null,  -- JSON, or encrypted
	secret           blob    not null,
	secret_old       blob,              -- signs too, until the time beside it
	secret_old_until integer,
	encrypted        integer not null,  -- headers and secrets
	ordered          integer not null,  -- one delivery at a time, in the order of events
	rate             real    not null,  -- deliveries per second; 0 is no limit
	concurrency      integer not null,  -- deliveries at a time; 0 is that of the relay
	disabled_at      integer,           -- null: it gets what is sent
	disabled_by      text    not null,  -- person, gone or failing; '' is none
	deleted_at       integer,           -- its deliveries are on their way out, and then this row is
	created_at       integer not null,
	version          integer not null
);
create unique index once_webhook_endpoint_uid on once_webhook_endpoint (uid);
create index once_webhook_endpoint_tenant on once_webhook_endpoint (tenant, id);
create index once_webhook_endpoint_part on once_webhook_endpoint (part, id);
-- Endpoints are created one at a time in each tenant, so that none has too many: whoever creates one locks its row.
create table once_webhook_tenant (
	tenant  text    not null,
	changed integer not null,
	primary key (tenant)
) without rowid;
-- Events, whose bytes never change.
create table once_webhook_event (
	id         integer primary key autoincrement,
	uid        text    not null,  -- msg_...: the header webhook-id of all deliveries and attempts
	tenant     text    not null,
	type       text    not null,
	data       blob    not null,
	encrypted  integer not null,
	created_at integer not null
);
create unique index once_webhook_event_uid on once_webhook_event (uid);
create index once_webhook_event_tenant on once_webhook_event (tenant, id);
-- Events that wait for their delivery to an endpoint. A row goes with its delivery.
create table once_webhook_delivery (
	endpoint   integer not null,
	event      integer not null,
	part       integer not null,  -- of the endpoint
	due_at     integer,           -- of the next attempt; null: it ran out, and waits for a person
	attempts   integer not null,  -- that have failed
	cause      text    not null,  -- of the next attempt: resend, recover, replay or test; '' is its time
	created_at integer not null,  -- of the event
	primary key (endpoint, event)
) without rowid;
create index once_webhook_delivery_due on once_webhook_delivery (endpoint, due_at, event);
-- Attempts, for those who look back.
create table once_webhook_attempt (
	id        integer primary key autoincrement,
	endpoint  integer not null,
	event     integer not null,
	at        integer not null,  -- when it began
	micros    integer not null,  -- how long it took
	status    integer not null,  -- of the answer; 0: there was none
	error     text    not null,  -- such as timeout; '' is none
	size      integer not null,  -- of the answer's body, as far as it was read
	answer    blob    not null,  -- its beginning
	encrypted integer not null,  -- answer
	cause     text    not null
);
create index once_webhook_attempt_event on once_webhook_attempt (endpoint, event, id);
-- How endpoints are doing. Only the relay that holds the part writes here.
create table once_webhook_state (
	endpoint      integer not null,
	part          integer not null,
	failures      integer not null,  -- in a row
	failing_since integer,
	circuit_until integer,           -- until then nothing is tried
	told          integer not null,  -- what the owner was told: 0, 50, 75 or 100 percent of the time to being disabled
	primary key (endpoint)
) without rowid;
-- The parts that relays hold, and the relays: as once_hold and once_hold_node of the outbox.
-- No row is ever deleted: a fence that begins again would let a former holder pass.
create table once_webhook_hold (
	work  text    not null,
	part  integer not null,
	node  text    not null,  -- that has taken it; it holds it as long as its row in once_webhook_hold_node has not expired. '' is none
	fence integer not null,  -- grows with every holder
	primary key (work, part)
) without rowid;
create table once_webhook_hold_node (
	work    text    not null,
	node    text    not null,
	expires integer not null,  -- from then on other nodes may take its parts
	leaving integer not null,  -- 1: it gives up its parts, and takes none
	ttl     integer,           -- microseconds after its last renewal in which it expires
	primary key (work, node)
) without rowid;
