create table if not exists refunds (
	id bigint generated always as identity primary key,
	charge text not null,
	amount bigint not null
);
