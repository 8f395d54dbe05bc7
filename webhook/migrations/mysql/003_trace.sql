-- The trace of the Send, to which the spans of attempts link: a W3C traceparent; '' is none.
alter table once_webhook_event add column trace varbinary(255) not null default '';
-- The public key of an endpoint whose secret is a private one, for those who look without the key of the service; '' is none.
alter table once_webhook_endpoint add column public_key varbinary(255) not null default '';
