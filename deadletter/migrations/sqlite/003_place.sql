-- Attempts of a message by its place in its key, for those who ask why the key waits.
create index once_deadletter_attempt_place on once_deadletter_attempt (consumer, source, topic, key, seq, attempt);
