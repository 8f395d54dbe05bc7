package dialect

// DueEndpoints is a query of the endpoints of webhooks with a delivery that is due, and that nothing keeps from being tried: how many there are, since when the first one has been due, and
// the time.
const DueEndpoints = `select count(*), min(x.due), NOW from (select (select min(d.due_at) from once_webhook_delivery d where d.endpoint = e.id) as due
 from once_webhook_endpoint e left join once_webhook_state s on s.endpoint = e.id
 where e.disabled_at is null and (s.circuit_until is null or s.circuit_until <= NOW)) x where x.due <= NOW`
