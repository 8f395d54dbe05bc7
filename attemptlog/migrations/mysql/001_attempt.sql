-- What was tried, also without a record to show for it: see package attemptlog.
create table once_attempt (
	key_hash       varchar(16)    not null,  -- first 16 hex digits of SHA-256 of the key
	id             varbinary(32)  not null,  -- of the attempt
	scope          varbinary(512) not null,
	at             bigint         not null,  -- when it had ended, in milliseconds since 1970
	outcome        varchar(32)    not null,  -- executed, replayed, declined, why not, or dropped
	effect         varchar(16)    not null,  -- what that proves: applied, not applied, in doubt
	from_state     varchar(16)    not null,  -- of the operation, as the attempt has found it; '' is not known
	to_state       varchar(16)    not null,  -- and as it has left it
	cause          varchar(64)    not null,  -- SQLSTATE, HTTP status or kind of an error
	attempt        bigint         not null,  -- number that the client gives it; 0 is none
	runs           bigint         not null,  -- of the handler
	dropped        bigint         not null,  -- attempts in place of which this row stands
	request_id     varbinary(512) not null,
	correlation_id varbinary(512) not null,
	node           varbinary(512) not null,
	lock_wait_us   bigint         not null,  -- microseconds, as all that follow
	waited_us      bigint         not null,
	handler_us     bigint         not null,
	commit_us      bigint         not null,
	total_us       bigint         not null,
	primary key (key_hash, id),
	index once_attempt_at (at)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
