-- Messages that were given up, every failed delivery, and what operators do about them: see package deadletter.
create table once_deadletter (
	uid             char(36)         not null,  -- UUIDv7
	origin          varbinary(16)    not null,  -- inbox or outbox
	consumer        varbinary(64)    not null,  -- of an inbox; '' is an outbox
	source          varbinary(255)   not null,
	event_id        varbinary(255)   not null,
	payload_hash    varbinary(32)    not null,
	topic           varbinary(255)   not null,
	`key`           varbinary(255)   not null,
	seq             bigint           not null,  -- 0 is none
	event_type      varbinary(255)   not null,
	headers         mediumblob       not null,  -- as its capability stores them; '' once the letter is resolved, and in an outbox, which has the message
	payload         longblob         not null,
	encrypted       boolean          not null,  -- headers and payload
	trace           varbinary(255)   not null,
	created_at      bigint,            -- null: not known
	class           varbinary(64)    not null,
	error           varbinary(2048)  not null,  -- the last one
	cause           varbinary(255)   not null,  -- error without numbers and ids: equal causes are one group
	attempts        bigint           not null,
	first_failed_at bigint           not null,
	dead_at         bigint           not null,
	state           varbinary(16)    not null,  -- dead, applied, stale or discarded
	redrive         varchar(36)      not null,  -- uid of the last redrive that has chosen it; '' is none
	redrive_at      bigint,            -- it is due then; null: it waits for a person
	resolved_at     bigint,
	reason          varbinary(512)   not null,  -- why it was discarded
	primary key (uid),
	unique key once_deadletter_message (origin, consumer, source, event_id, payload_hash),
	index once_deadletter_due (origin, consumer, redrive_at, uid),
	index once_deadletter_redriven (redrive, uid),
	index once_deadletter_state (state, uid)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Failed deliveries, also of messages that were applied afterwards.
create table once_deadletter_attempt (
	origin          varbinary(16)    not null,
	consumer        varbinary(64)    not null,
	source          varbinary(255)   not null,
	event_id        varbinary(255)   not null,
	attempt         bigint           not null,  -- 1, 2, ...; of many only the first and the last are kept
	at              bigint           not null,
	node            varbinary(255)   not null,
	error           varbinary(2048)  not null,
	trace           varbinary(255)   not null,
	primary key (origin, consumer, source, event_id, attempt),
	index once_deadletter_attempt_at (at)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Redrives: letters that an operator has had tried again.
create table once_deadletter_redrive (
	uid             char(36)         not null,
	filter          blob             not null,  -- JSON
	rate            double           not null,  -- letters per second; 0: all at once
	canary          varchar(36)      not null,  -- '' is none, first: one letter is to be chosen, else the uid of that letter
	state           varbinary(16)    not null,  -- running, done, cancelled or stopped
	who             varbinary(512)   not null,
	reason          varbinary(512)   not null,
	created_at      bigint           not null,
	last_uid        varchar(36)      not null,  -- the last letter that was chosen
	last_at         bigint           not null,  -- when it is due
	total           bigint           not null,  -- letters that were chosen
	primary key (uid)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
