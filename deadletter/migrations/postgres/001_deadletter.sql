-- Messages that were given up, every failed delivery, and what operators do about them: see package deadletter.
create table once_deadletter (
	uid             text collate "C" not null,  -- UUIDv7
	origin          text collate "C" not null,  -- inbox or outbox
	consumer        text collate "C" not null,  -- of an inbox; '' is an outbox
	source          text collate "C" not null,
	event_id        text collate "C" not null,
	payload_hash    bytea            not null,
	topic           text collate "C" not null,
	key             text collate "C" not null,
	seq             bigint           not null,  -- 0 is none
	event_type      text             not null,
	headers         bytea            not null,  -- as its capability stores them; '' once the letter is resolved, and in an outbox, which has the message
	payload         bytea            not null,
	encrypted       boolean          not null,  -- headers and payload
	trace           text             not null,
	created_at      timestamptz,            -- null: not known
	class           text collate "C" not null,
	error           text             not null,  -- the last one
	cause           text collate "C" not null,  -- error without numbers and ids: equal causes are one group
	attempts        bigint           not null,
	first_failed_at timestamptz      not null,
	dead_at         timestamptz      not null,
	state           text collate "C" not null,  -- dead, applied, stale or discarded
	redrive         text collate "C" not null,  -- uid of the last redrive that has chosen it; '' is none
	redrive_at      timestamptz,            -- it is due then; null: it waits for a person
	resolved_at     timestamptz,
	reason          text             not null,  -- why it was discarded
	primary key (uid)
);
create unique index once_deadletter_message on once_deadletter (origin, consumer, source, event_id, payload_hash);
create index once_deadletter_due on once_deadletter (origin, consumer, redrive_at, uid) where redrive_at is not null;
create index once_deadletter_redriven on once_deadletter (redrive, uid) where redrive <> '';
create index once_deadletter_state on once_deadletter (state, uid);
-- Failed deliveries, also of messages that were applied afterwards.
create table once_deadletter_attempt (
	origin          text collate "C" not null,
	consumer        text collate "C" not null,
	source          text collate "C" not null,
	event_id        text collate "C" not null,
	attempt         bigint           not null,  -- 1, 2, ...; of many only the first and the last are kept
	at              timestamptz      not null,
	node            text             not null,
	error           text             not null,
	trace           text             not null,
	primary key (origin, consumer, source, event_id, attempt)
);
create index once_deadletter_attempt_at on once_deadletter_attempt (at);
-- Redrives: letters that an operator has had tried again.
create table once_deadletter_redrive (
	uid             text collate "C" not null,
	filter          text             not null,  -- JSON
	rate            double precision not null,  -- letters per second; 0: all at once
	canary          text collate "C" not null,  -- '' is none, first: one letter is to be chosen, else the uid of that letter
	state           text collate "C" not null,  -- running, done, cancelled or stopped
	who             text             not null,
	reason          text             not null,
	created_at      timestamptz      not null,
	last_uid        text collate "C" not null,  -- the last letter that was chosen
	last_at         timestamptz      not null,  -- when it is due
	total           bigint           not null,  -- letters that were chosen
	primary key (uid)
);
