-- What a service has committed of an operation, in the transaction in which it did the work: see docs/receipt.md.
create table once_receipt (
	operation   text    not null primary key,    -- Once-Operation of the request
	fingerprint text    not null default '',     -- Once-Fingerprint of the request; '' is compared with nothing
	status      integer not null,                -- of the answer
	header      text check (header is null or json_valid(header)), -- of the answer: {"Content-Type": "application/json"}
	body        blob,                            -- of the answer
	tombstone   boolean not null default false,  -- once wrote it: no transaction can commit this operation any more
	created_at  integer not null default (cast((julianday('now') - 2440587.5) * 86400000.0 as integer)),  -- milliseconds since 1970
	constraint once_receipt_status check (tombstone and status = 0 or not tombstone and status between 200 and 599)
);
create index once_receipt_created on once_receipt (created_at);
