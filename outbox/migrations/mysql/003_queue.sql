-- What waits of a topic in a part, in its order; and what of it is to be tried again.
create index once_outbox_queue on once_outbox (topic, part, id);
create index once_outbox_failed_queue on once_outbox_failed (part, topic, next_at);
