package dialect

// DueEndpoints is a query about the endpoints of webhooks that have a due delivery and can be tried now. It returns their
// number, the time since when the first delivery is due, and the current time.
const DueEndpoints = `select count(*), min(x.due), NOW from (select (select min(d.due_at) from once_webhook_delivery d where d.endpoint = e.id) as due
 from once_webhook_endpoint e left join once_webhook_state s on s.endpoint = e.id
 where e.disabled_at is null and (s.circuit_until is null or s.circuit_until <= NOW)) x where x.due <= NOW`
