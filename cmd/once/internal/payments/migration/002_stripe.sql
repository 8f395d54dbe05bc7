-- What Stripe's clients say of charges and refunds. Metadata is a JSON object of texts.

alter table charge add column description text not null default '';

alter table charge add column metadata json not null default '{}';

alter table refund add column reason text not null default '';

alter table refund add column metadata json not null default '{}';
