-- What a service has committed of an operation, in the transaction in which it did the work: see docs/receipt.md.
create table once_receipt (
	operation   varchar(255) not null primary key,     -- Once-Operation of the request
	fingerprint varchar(255) not null default '',      -- Once-Fingerprint of the request; '' is compared with nothing
	status      smallint     not null,                 -- of the answer
	header      json,                                  -- of the answer: {"Content-Type": "application/json"}
	body        longblob,                              -- of the answer
	tombstone   boolean      not null default false,   -- once wrote it: no transaction can commit this operation any more
	created_at  bigint       not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000),  -- milliseconds since 1970
	index once_receipt_created (created_at),
	constraint once_receipt_status check (tombstone and status = 0 or not tombstone and status between 200 and 599)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
