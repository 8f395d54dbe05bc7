-- A parked message by its ID, for those who look for an event.
create index once_inbox_parked_event on once_inbox_parked (event_id);
