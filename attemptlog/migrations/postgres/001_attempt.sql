-- What was tried, also without a record to show for it: see package attemptlog.
create table once_attempt (
	key_hash       text collate "C" not null,  -- first 16 hex digits of SHA-256 of the key
	id             bytea       not null,       -- of the attempt
	scope          text collate "C" not null,
	at             timestamptz not null,       -- when it had ended
	outcome        text        not null,       -- executed, replayed, declined, why not, or dropped
	effect         text        not null,       -- what that proves: applied, not applied, in doubt
	from_state     text        not null,       -- of the operation, as the attempt has found it; '' is not known
	to_state       text        not null,       -- and as it has left it
	cause          text        not null,       -- SQLSTATE, HTTP status or kind of an error
	attempt        bigint      not null,       -- number that the client gives it; 0 is none
	runs           bigint      not null,       -- of the handler
	dropped        bigint      not null,       -- attempts in place of which this row stands
	request_id     text        not null,
	correlation_id text        not null,
	node           text        not null,
	lock_wait_us   bigint      not null,       -- microseconds, as all that follow
	waited_us      bigint      not null,
	handler_us     bigint      not null,
	commit_us      bigint      not null,
	total_us       bigint      not null,
	primary key (key_hash, id)
);
create index once_attempt_at on once_attempt (at);
