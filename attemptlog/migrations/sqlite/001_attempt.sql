-- What was tried, also without a record to show for it: see package attemptlog.
create table once_attempt (
	key_hash       text    not null,  -- first 16 hex digits of SHA-256 of the key
	id             blob    not null,  -- of the attempt
	scope          text    not null,
	at             integer not null,  -- when it had ended, in milliseconds since 1970
	outcome        text    not null,  -- executed, replayed, declined, why not, or dropped
	effect         text    not null,  -- what that proves: applied, not applied, in doubt
	from_state     text    not null,  -- of the operation, as the attempt has found it; '' is not known
	to_state       text    not null,  -- and as it has left it
	cause          text    not null,  -- SQLSTATE, HTTP status or kind of an error
	attempt        integer not null,  -- number that the client gives it; 0 is none
	runs           integer not null,  -- of the handler
	dropped        integer not null,  -- attempts in place of which this row stands
	request_id     text    not null,
	correlation_id text    not null,
	node           text    not null,
	lock_wait_us   integer not null,  -- microseconds, as all that follow
	waited_us      integer not null,
	handler_us     integer not null,
	commit_us      integer not null,
	total_us       integer not null,
	primary key (key_hash, id)
) without rowid;
create index once_attempt_at on once_attempt (at);
