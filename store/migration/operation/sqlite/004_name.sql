-- What kind of work an operation is (Operation.Name), so that lists and gauges can tell. No row is rewritten.
alter table once_operation add column name text;
