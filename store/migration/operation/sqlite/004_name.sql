-- From this version on a state may be 4: begun, and waiting for its next owner.
-- What kind of work an operation is (Operation.Name), so that lists and gauges can tell. No row is rewritten.
alter table once_operation add column name text;
