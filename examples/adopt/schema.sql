-- What the service has had before: a key is inserted in the transaction of the write, and gets the answer at its end.
create table if not exists idempotency_key (
    account    text        not null,
    key        text        not null,
    request    bytea       not null, -- SHA-256 of the body
    status     integer,
    answer     bytea,
    created_at timestamptz not null default now(),
    primary key (account, key)
);
create table if not exists refund (id bigserial primary key, charge text not null, amount bigint not null);
