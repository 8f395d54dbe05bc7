-- Endpoints of tenants, to which webhooks are sent: see package webhook. What a person has set, and nothing that changes while the relays run:
-- every Send reads these rows.
create table once_webhook_endpoint (
	id               bigint not null auto_increment,
	uid              varbinary(64)    not null,  -- ep_..., for people
	part             smallint         not null,  -- 0 to 63, a hash of uid; one relay at a time holds a part
	tenant           varbinary(255)   not null,
	url              varbinary(2048)  not null,
	types            varbinary(8192)  not null,  -- patterns, each between blanks: ' refund.* payment.failed '
	description      varbinary(512)   not null,
	headers          blob             not null,  -- JSON, or encrypted
	secret           blob             not null,
	secret_old       blob,                       -- signs too, until the time beside it
	secret_old_until bigint,
	encrypted        boolean          not null,  -- headers and secrets
	ordered          boolean          not null,  -- one delivery at a time, in the order of events
	rate             double precision not null,  -- deliveries per second; 0 is no limit
	concurrency      integer          not null,  -- deliveries at a time; 0 is that of the relay
	disabled_at      bigint,                     -- null: it gets what is sent
	disabled_by      varbinary(16)    not null,  -- person, gone or failing; '' is none
	deleted_at       bigint,                     -- its deliveries are on their way out, and then this row is
	created_at       bigint           not null,
	version          bigint           not null,
	primary key (id),
	unique key once_webhook_endpoint_uid (uid),
	index once_webhook_endpoint_tenant (tenant, id),
	index once_webhook_endpoint_part (part, id)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Endpoints are created one at a time in each tenant, so that none has too many: whoever creates one locks its row.
create table once_webhook_tenant (
	tenant  varbinary(255) not null,
	changed bigint         not null,
	primary key (tenant)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Events, whose bytes never change.
create table once_webhook_event (
	id         bigint not null auto_increment,
	uid        varbinary(64)  not null,  -- msg_...: the header webhook-id of all deliveries and attempts
	tenant     varbinary(255) not null,
	type       varbinary(255) not null,
	data       longblob       not null,
	encrypted  boolean        not null,
	created_at bigint         not null,
	primary key (id),
	unique key once_webhook_event_uid (uid),
	index once_webhook_event_tenant (tenant, id)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Events that wait for their delivery to an endpoint. A row goes with its delivery.
create table once_webhook_delivery (
	endpoint   bigint        not null,
	event      bigint        not null,
	part       smallint      not null,  -- of the endpoint
	due_at     bigint,                  -- of the next attempt; null: it ran out, and waits for a person
	attempts   integer       not null,  -- that have failed
	cause      varbinary(16) not null,  -- of the next attempt: resend, recover, replay or test; '' is its time
	created_at bigint        not null,  -- of the event
	primary key (endpoint, event),
	index once_webhook_delivery_due (endpoint, due_at, event)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Attempts, for those who look back.
create table once_webhook_attempt (
	id        bigint not null auto_increment,
	endpoint  bigint        not null,
	event     bigint        not null,
	at        bigint        not null,  -- when it began
	micros    bigint        not null,  -- how long it took
	status    integer       not null,  -- of the answer; 0: there was none
	error     varbinary(64) not null,  -- such as timeout; '' is none
	size      bigint        not null,  -- of the answer's body, as far as it was read
	answer    blob          not null,  -- its beginning
	encrypted boolean       not null,  -- answer
	cause     varbinary(16) not null,
	primary key (id),
	index once_webhook_attempt_event (endpoint, event, id)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- How endpoints are doing. Only the relay that holds the part writes here.
create table once_webhook_state (
	endpoint      bigint   not null,
	part          smallint not null,
	failures      integer  not null,  -- in a row
	failing_since bigint,
	circuit_until bigint,             -- until then nothing is tried
	told          integer  not null,  -- what the owner was told: 0, 50, 75 or 100 percent of the time to being disabled
	primary key (endpoint)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- The parts that relays hold, and the relays: as once_hold and once_hold_node of the outbox.
-- No row is ever deleted: a fence that begins again would let a former holder pass.
create table once_webhook_hold (
	work  varbinary(64)  not null,
	part  smallint       not null,
	node  varbinary(255) not null,  -- that has taken it; it holds it as long as its row in once_webhook_hold_node has not expired. '' is none
	fence bigint         not null,  -- grows with every holder
	primary key (work, part)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
create table once_webhook_hold_node (
	work    varbinary(64)  not null,
	node    varbinary(255) not null,
	expires bigint         not null,  -- from then on other nodes may take its parts
	leaving smallint       not null,  -- 1: it gives up its parts, and takes none
	ttl     bigint,                   -- microseconds after its last renewal in which it expires
	primary key (work, node)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
