-- The host that an attempt has asked, if it has answered: what it has said is shown to a tenant only if that host may be.
alter table once_webhook_attempt add column host varbinary(255) not null default '';
