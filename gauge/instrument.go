package gauge

import "github.com/oncelib/once/internal/base/gaugename"

// fold combines two values with the same name and label.
type fold uint8

const (
	sum fold = iota
	highest
	lowest
)

// Instrument describes a gauge. A gauge is all values with the same name.
type Instrument struct {
	Name  string // the name of the gauge in Prometheus
	OTel  string // the name of the gauge in OpenTelemetry
	Unit  string // the unit of the gauge, as a UCUM code
	Label string // the name of the only label of the gauge; "" if the gauge has no label
	Grows bool   // true if the instrument is a counter, whose values count since the start of the process
	Help  string

	fold fold
}

var instruments = []Instrument{
	{Name: gaugename.UnfinishedOperations, OTel: "once.unfinished.operations", Unit: "{operation}", Help: "Operations that are claimed and not done. At most 100,000 are counted."},
	{Name: gaugename.UnfinishedOldestAge, OTel: "once.unfinished.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest operation that is not done."},
	{Name: gaugename.UnknownOperations, OTel: "once.unknown.operations", Unit: "{operation}", Help: "Operations whose outcome only an operator can find out. At most 100,000 are counted."},
	{Name: gaugename.UnknownOldestAge, OTel: "once.unknown.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest operation whose outcome is unknown."},
	{Name: gaugename.ExpiredOperations, OTel: "once.expired.operations", Unit: "{operation}", Help: "Expired operations that are not deleted yet. At most 100,000 are counted."},
	{Name: gaugename.ExpiredOldestAge, OTel: "once.expired.oldest_age", Unit: "s", fold: highest, Help: "Time since the retention of the oldest expired operation ended."},
	{Name: gaugename.WaitingOperations, OTel: "once.waiting.operations", Unit: "{operation}", Help: "Operations that were begun and wait for their next owner. At most 100,000 are counted."},
	{Name: gaugename.WaitingOldestAge, OTel: "once.waiting.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest operation that waits for its next owner."},
	{Name: gaugename.NamedUnfinishedOperations, OTel: "once.named.unfinished.operations", Unit: "{operation}", Label: "operation", Help: "Operations of a name that are claimed and not done. The first 100 names have a value of their own; all later names are counted as other."},
	{Name: gaugename.NamedWaitingOperations, OTel: "once.named.waiting.operations", Unit: "{operation}", Label: "operation", Help: "Operations of a name that were begun and wait for their next owner."},
	{Name: gaugename.NamedUnknownOperations, OTel: "once.named.unknown.operations", Unit: "{operation}", Label: "operation", Help: "Operations of a name whose outcome only an operator can find out."},

	{Name: gaugename.OutboxMessages, OTel: "once.outbox.messages", Unit: "{message}", Help: "Messages that wait for delivery. At most 100,000 are counted."},
	{Name: gaugename.OutboxOldestAge, OTel: "once.outbox.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest message that waits for delivery."},
	{Name: gaugename.OutboxReadyOldestAge, OTel: "once.outbox.ready.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest message of the outbox that a relay could deliver now: no earlier message blocks its key, and its topic is in no state of once_outbox_topics, or only in the state failing."},
	{Name: gaugename.OutboxTopics, OTel: "once.outbox.topics", Unit: "{topic}", Label: "state", Help: "Topics of the outbox whose messages wait. The state says why: an operator has paused the topic, its destination is down or hanging, the topic is full of failing messages, it is over its rate, or some of its messages are failing."},
	{Name: gaugename.OutboxFailingMessages, OTel: "once.outbox.failing_messages", Unit: "{message}", Help: "Messages whose delivery has failed and is tried again."},
	{Name: gaugename.OutboxBlockedKeys, OTel: "once.outbox.blocked_keys", Unit: "{key}", Help: "Keys whose first message is failing or was given up. Later messages of such a key wait."},
	{Name: gaugename.InboxParkedMessages, OTel: "once.inbox.parked_messages", Unit: "{message}", Help: "Messages that wait for an earlier message of their key. At most 100,000 are counted."},
	{Name: gaugename.InboxParkedOldestAge, OTel: "once.inbox.parked_oldest_age", Unit: "s", fold: highest, Help: "The longest time for which a key with parked messages has waited."},
	{Name: gaugename.ConsumerReadyMessages, OTel: "once.consumer.ready.messages", Unit: "{message}", Help: "Messages that consumers of this process have received, and that a handler could process now."},
	{Name: gaugename.ConsumerReadyOldestAge, OTel: "once.consumer.ready.oldest_age", Unit: "s", fold: highest, Help: "For how long the oldest ready message has waited."},
	{Name: gaugename.ConsumerPostponedMessages, OTel: "once.consumer.postponed.messages", Unit: "{message}", Help: "Messages that consumers of this process have received, and that wait for their next attempt after a failure, or for another message of their key."},
	{Name: gaugename.ConsumerPostponedOldestAge, OTel: "once.consumer.postponed.oldest_age", Unit: "s", fold: highest, Help: "For how long the oldest postponed message has waited."},
	{Name: gaugename.ConsumerPausedPartitions, OTel: "once.consumer.paused.partitions", Unit: "{partition}", Help: "Partitions of Kafka that are not fetched, because too many of their messages have failed or wait."},
	{Name: gaugename.ConsumerHangingHandlers, OTel: "once.consumer.hanging.handlers", Unit: "{handler}", Help: "Handlers of messages that still run after their time limit."},
	{Name: gaugename.DeadLetters, OTel: "once.dead_letters", Unit: "{message}", Help: "Messages that are given up and wait for an operator. At most 100,000 are counted."},
	{Name: gaugename.SagasDue, OTel: "once.sagas.due", Unit: "{saga}", Help: "Sagas that are due and not run: no node runs them, or all nodes are busy. At most 100,000 are counted."},
	{Name: gaugename.SagasDueOldestAge, OTel: "once.sagas.due.oldest_age", Unit: "s", fold: highest, Help: "For how long the oldest saga has been due."},
	{Name: gaugename.SagasStuck, OTel: "once.sagas.stuck", Unit: "{saga}", Help: "Stuck sagas, about which an operator must decide; once_unknown_operations also counts stuck sagas."},
	{Name: gaugename.SagasBehindPivot, OTel: "once.sagas.behind_pivot", Unit: "{saga}", Help: "Sagas that have passed their pivot, so that they are not undone any more, and have not ended."},
	{Name: gaugename.SagasBehindPivotOldestAge, OTel: "once.sagas.behind_pivot.oldest_age", Unit: "s", fold: highest, Help: "Time since the start of the oldest saga that has passed its pivot and has not ended."},
	{Name: gaugename.WebhookDeliveries, OTel: "once.webhook.deliveries", Unit: "{delivery}", Help: "Deliveries of webhooks that wait: for their due time, for their endpoint, or for an operator. At most 100,000 are counted."},
	{Name: gaugename.WebhookDueEndpoints, OTel: "once.webhook.due.endpoints", Unit: "{endpoint}", Help: "Endpoints with a delivery that is due and that a relay could send now: the endpoint is not disabled, and its circuit is closed."},
	{Name: gaugename.WebhookDueOldestAge, OTel: "once.webhook.due.oldest_age", Unit: "s", fold: highest, Help: "For how long the oldest delivery that a relay could send now has been due."},
	{Name: gaugename.WebhookCircuitsOpen, OTel: "once.webhook.circuits_open", Unit: "{endpoint}", Help: "Endpoints that have failed several times in a row, and get no request for some time."},
	{Name: gaugename.WebhookDisabledEndpoints, OTel: "once.webhook.disabled_endpoints", Unit: "{endpoint}", Label: "by", Help: "Endpoints that get no request: an operator or a tenant has disabled the endpoint, or a relay has disabled the endpoint because it is gone or was failing for too long."},
	{Name: gaugename.WebhookRelays, OTel: "once.webhook.relays", Unit: "{process}", fold: highest, Help: "Processes that deliver webhooks now."},
	{Name: gaugename.WebhookSlowRequests, OTel: "once.webhook.slow_requests", Unit: "{request}", Help: "Requests of the relays of this process that have had no answer for more than a second."},
	{Name: gaugename.AttemptLogDropped, OTel: "once.attempt_log.dropped", Unit: "{attempt}", Grows: true, Help: "Attempts that the attempt log has not stored."},

	{Name: gaugename.CacheHits, OTel: "once.cache.hits", Unit: "{look_up}", Grows: true, Help: "Results that were found in Config.Cache."},
	{Name: gaugename.CacheMisses, OTel: "once.cache.misses", Unit: "{look_up}", Grows: true, Help: "Results that were not found in Config.Cache."},
	{Name: gaugename.CacheBytes, OTel: "once.cache.size", Unit: "By", Help: "Memory that results take in Config.Cache."},
	{Name: gaugename.SharedCacheHits, OTel: "once.shared_cache.hits", Unit: "{look_up}", Grows: true, Help: "Results that were found in Config.Shared."},
	{Name: gaugename.SharedCacheMisses, OTel: "once.shared_cache.misses", Unit: "{look_up}", Grows: true, Help: "Results that were not found in Config.Shared."},
	{Name: gaugename.SharedCacheSkipped, OTel: "once.shared_cache.skipped", Unit: "{result}", Grows: true, Help: "Results that were neither read from Config.Shared nor written to it: Config.Shared has failed several times in a row, too many requests are in flight, or the result is too large."},
	{Name: gaugename.SharedCacheErrors, OTel: "once.shared_cache.errors", Unit: "{request}", Grows: true, Help: "Requests to Config.Shared that have failed or were not answered in time, and values that could not be read."},

	{Name: gaugename.RetryBudgetBalance, OTel: "once.retry.budget_balance", Unit: "{retry}", Label: "destination", fold: lowest, Help: "Retries that a budget still allows."},
	{Name: gaugename.BreakerOpen, OTel: "once.breaker.open", Unit: "1", Label: "destination", fold: highest, Help: "1 while a circuit breaker is open or lets single attempts through, 0 while it is closed."},
	{Name: gaugename.LimiterRunning, OTel: "once.limiter.running", Unit: "{request}", Help: "Requests that a limiter serves now."},
	{Name: gaugename.LimiterWaiting, OTel: "once.limiter.waiting", Unit: "{request}", Help: "Requests that wait for their turn."},
	{Name: gaugename.LimiterCapacity, OTel: "once.limiter.capacity", Unit: "{request}", Help: "Requests that a limiter serves at the same time."},
	{Name: gaugename.LimiterRefused, OTel: "once.limiter.refused", Unit: "{request}", Label: "reason", Grows: true, Help: "Requests that a limiter has refused."},
	{Name: gaugename.QuotaLargestBytes, OTel: "once.quota.largest", Unit: "By", fold: highest, Help: "Bytes that the largest principal has stored: by the last count of a quota, plus the bytes that this process has added since."},
	{Name: gaugename.QuotaRefused, OTel: "once.quota.refused", Unit: "{request}", Grows: true, Help: "Requests that were refused because their principal has used up its quota of stored bytes."},
	{Name: gaugename.PoolConnections, OTel: "once.pool.connections", Unit: "{connection}", Label: "state", Help: "Connections of the pool, in_use or idle."},
	{Name: gaugename.PoolMaxConnections, OTel: "once.pool.max_connections", Unit: "{connection}", Help: "Largest number of connections that the pool may have."},

	{Name: gaugename.Age, OTel: "once.watch.age", Unit: "s", fold: highest, Help: "Time since the last answer of a source of gauges; of several sources, the longest such time."},
}

var byName = func() map[string]*Instrument {
	m := make(map[string]*Instrument, len(instruments))
	for i := range instruments {
		m[instruments[i].Name] = &instruments[i]
	}
	return m
}()

// Instruments returns the descriptions of all gauges of this library.
func Instruments() []Instrument { return append([]Instrument(nil), instruments...) }
