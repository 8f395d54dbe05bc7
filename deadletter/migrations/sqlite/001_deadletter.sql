-- Messages that were given up, every failed delivery, and what operators do about them: see package deadletter.
create table once_deadletter (
	uid             text             not null,  -- UUIDv7
	origin          text             not null,  -- inbox or outbox
	consumer        text             not null,  -- of an inbox; '' is an outbox
	source          text             not null,
	event_id        text             not null,
	payload_hash    blob             not null,
	topic           text             not null,
	key             text             not null,
	seq             integer          not null,  -- 0 is none
	event_type      text             not null,
	headers         blob             not null,  -- as its capability stores them; '' once the letter is resolved, and in an outbox, which has the message
	payload         blob             not null,
	encrypted       integer          not null,  -- headers and payload
	trace           text             not null,
	created_at      integer,            -- null: not known
	class           text             not null,
	error           text             not null,  -- the last one
	cause           text             not null,  -- error without numbers and ids: equal causes are one group
	attempts        integer          not null,
	first_failed_at integer          not null,
	dead_at         integer          not null,
	state           text             not null,  -- dead, applied, stale or discarded
	redrive         text             not null,  -- uid of the last redrive that has chosen it; '' is none
	redrive_at      integer,            -- it is due then; null: it waits for a person
	resolved_at     integer,
	reason          text             not null,  -- why it was discarded
	primary key (uid)
);
create unique index once_deadletter_message on once_deadletter (origin, consumer, source, event_id, payload_hash);
create index once_deadletter_due on once_deadletter (origin, consumer, redrive_at, uid) where redrive_at is not null;
create index once_deadletter_redriven on once_deadletter (redrive, uid) where redrive <> '';
create index once_deadletter_state on once_deadletter (state, uid);
-- Failed deliveries, also of messages that were applied afterwards.
create table once_deadletter_attempt (
	origin          text             not null,
	consumer        text             not null,
	source          text             not null,
	event_id        text             not null,
	attempt         integer          not null,  -- 1, 2, ...; of many only the first and the last are kept
	at              integer          not null,
	node            text             not null,
	error           text             not null,
	trace           text             not null,
	primary key (origin, consumer, source, event_id, attempt)
) without rowid;
create index once_deadletter_attempt_at on once_deadletter_attempt (at);
-- Redrives: letters that an operator has had tried again.
create table once_deadletter_redrive (
	uid             text             not null,
	filter          text             not null,  -- JSON
	rate            real             not null,  -- letters per second; 0: all at once
	canary          text             not null,  -- '' is none, first: one letter is to be chosen, else the uid of that letter
	state           text             not null,  -- running, done, cancelled or stopped
	who             text             not null,
	reason          text             not null,
	created_at      integer          not null,
	last_uid        text             not null,  -- the last letter that was chosen
	last_at         integer          not null,  -- when it is due
	total           integer          not null,  -- letters that were chosen
	primary key (uid)
) without rowid;
