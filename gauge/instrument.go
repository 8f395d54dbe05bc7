package gauge

import "github.com/oncelib/once/internal/base/gaugename"

// fold combines two values with the same name and label.
type fold uint8

const (
	sum fold = iota
	highest
	lowest
)

// Instrument describes the values with one name.
type Instrument struct {
	Name  string // of Prometheus
	OTel  string // its name for OpenTelemetry
	Unit  string // its unit, in the words of UCUM
	Label string // the name of its one label; "": it has none
	Grows bool   // it counts since the process began, and only grows
	Help  string

	fold fold
}

var instruments = []Instrument{
	{Name: gaugename.UnfinishedOperations, OTel: "once.unfinished.operations", Unit: "{operation}", Help: "Operations that have begun and are not done. At most 100,000 are counted."},
	{Name: gaugename.UnfinishedOldestAge, OTel: "once.unfinished.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest operation that is not done."},
	{Name: gaugename.UnknownOperations, OTel: "once.unknown.operations", Unit: "{operation}", Help: "Operations whose outcome only a person can find out, at most 100,000 are counted."},
	{Name: gaugename.UnknownOldestAge, OTel: "once.unknown.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest operation whose outcome is unknown."},
	{Name: gaugename.ExpiredOperations, OTel: "once.expired.operations", Unit: "{operation}", Help: "Operations whose retention is over and whose rows are not deleted yet. At most 100,000 are counted."},
	{Name: gaugename.ExpiredOldestAge, OTel: "once.expired.oldest_age", Unit: "s", fold: highest, Help: "Time since the retention of the oldest expired operation ended."},
	{Name: gaugename.WaitingOperations, OTel: "once.waiting.operations", Unit: "{operation}", Help: "Operations that have begun and that no process works on. At most 100,000 are counted."},
	{Name: gaugename.WaitingOldestAge, OTel: "once.waiting.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest operation that has begun and that no process works on."},
	{Name: gaugename.NamedUnfinishedOperations, OTel: "once.named.unfinished.operations", Unit: "{operation}", Label: "operation", Help: "Operations of a name that have begun and are not done. At most 100 names are reported; operations of further names are counted under the name other."},
	{Name: gaugename.NamedWaitingOperations, OTel: "once.named.waiting.operations", Unit: "{operation}", Label: "operation", Help: "Operations of a name that have begun and that no process works on."},
	{Name: gaugename.NamedUnknownOperations, OTel: "once.named.unknown.operations", Unit: "{operation}", Label: "operation", Help: "Operations of a name whose outcome only a person can find out."},

	{Name: gaugename.OutboxMessages, OTel: "once.outbox.messages", Unit: "{message}", Help: "Messages that wait for delivery, at most 100,000 are counted."},
	{Name: gaugename.OutboxOldestAge, OTel: "once.outbox.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest message that waits for delivery."},
	{Name: gaugename.OutboxReadyOldestAge, OTel: "once.outbox.ready.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest message of the outbox that could be delivered now: its topic is in no state of once_outbox_topics but failing, and its key waits for no other message."},
	{Name: gaugename.OutboxTopics, OTel: "once.outbox.topics", Unit: "{topic}", Label: "state", Help: "Topics of the outbox whose messages wait: a person has paused them, their destination is down or hanging, they are full of messages that fail, over their rate, or some of their messages are failing."},
	{Name: gaugename.OutboxFailingMessages, OTel: "once.outbox.failing_messages", Unit: "{message}", Help: "Messages whose delivery has failed and is tried again."},
	{Name: gaugename.OutboxBlockedKeys, OTel: "once.outbox.blocked_keys", Unit: "{key}", Help: "Keys whose first message is failing or given up: later ones wait for it."},
	{Name: gaugename.InboxParkedMessages, OTel: "once.inbox.parked_messages", Unit: "{message}", Help: "Messages that wait for an earlier one of their key, at most 100,000 are counted."},
	{Name: gaugename.InboxParkedOldestAge, OTel: "once.inbox.parked_oldest_age", Unit: "s", fold: highest, Help: "The longest time for which a key with parked messages has waited."},
	{Name: gaugename.ConsumerReadyMessages, OTel: "once.consumer.ready.messages", Unit: "{message}", Help: "Messages that consumers of this process have received and that wait for a free handler."},
	{Name: gaugename.ConsumerReadyOldestAge, OTel: "once.consumer.ready.oldest_age", Unit: "s", fold: highest, Help: "Time for which the oldest of these messages has waited."},
	{Name: gaugename.ConsumerPostponedMessages, OTel: "once.consumer.postponed.messages", Unit: "{message}", Help: "Messages that consumers of this process have received and that wait for their next attempt, or for another message of their key."},
	{Name: gaugename.ConsumerPostponedOldestAge, OTel: "once.consumer.postponed.oldest_age", Unit: "s", fold: highest, Help: "Time for which the oldest of these messages has waited."},
	{Name: gaugename.ConsumerPausedPartitions, OTel: "once.consumer.paused.partitions", Unit: "{partition}", Help: "Partitions of Kafka whose fetching is paused, because too many of their messages fail or wait."},
	{Name: gaugename.ConsumerHangingHandlers, OTel: "once.consumer.hanging.handlers", Unit: "{handler}", Help: "Handlers of messages that still run although their time limit is over."},
	{Name: gaugename.DeadLetters, OTel: "once.dead_letters", Unit: "{message}", Help: "Messages that are given up and wait for a person, at most 100,000 are counted."},
	{Name: gaugename.SagasDue, OTel: "once.sagas.due", Unit: "{saga}", Help: "Sagas that are due and that no process has taken yet. At most 100,000 are counted."},
	{Name: gaugename.SagasDueOldestAge, OTel: "once.sagas.due.oldest_age", Unit: "s", fold: highest, Help: "Time for which the oldest due saga has been due."},
	{Name: gaugename.SagasStuck, OTel: "once.sagas.stuck", Unit: "{saga}", Help: "Sagas about which a person must decide; once_unknown_operations counts them, too."},
	{Name: gaugename.SagasBehindPivot, OTel: "once.sagas.behind_pivot", Unit: "{saga}", Help: "Sagas that have passed their pivot, after which they are not undone any more, and have not ended."},
	{Name: gaugename.SagasBehindPivotOldestAge, OTel: "once.sagas.behind_pivot.oldest_age", Unit: "s", fold: highest, Help: "Time since the start of the oldest saga that has passed its pivot and has not ended."},
	{Name: gaugename.WebhookDeliveries, OTel: "once.webhook.deliveries", Unit: "{delivery}", Help: "Deliveries of webhooks that wait: for their time, for their endpoint, or for a person. At most 100,000 are counted."},
	{Name: gaugename.WebhookDueEndpoints, OTel: "once.webhook.due.endpoints", Unit: "{endpoint}", Help: "Endpoints with a delivery that is due and can be tried: the endpoint is not disabled, and its circuit is closed."},
	{Name: gaugename.WebhookDueOldestAge, OTel: "once.webhook.due.oldest_age", Unit: "s", fold: highest, Help: "Time for which the oldest due delivery of these endpoints has been due."},
	{Name: gaugename.WebhookCircuitsOpen, OTel: "once.webhook.circuits_open", Unit: "{endpoint}", Help: "Endpoints that have failed several times in a row, and to which nothing is sent for a while."},
	{Name: gaugename.WebhookDisabledEndpoints, OTel: "once.webhook.disabled_endpoints", Unit: "{endpoint}", Label: "by", Help: "Endpoints that get nothing: a person has disabled them, or a relay has because they are gone or were failing for too long."},
	{Name: gaugename.WebhookRelays, OTel: "once.webhook.relays", Unit: "{process}", fold: highest, Help: "Processes that deliver webhooks now."},
	{Name: gaugename.WebhookSlowRequests, OTel: "once.webhook.slow_requests", Unit: "{request}", Help: "Requests of the webhook relays of this process that have had no answer for more than a second."},
	{Name: gaugename.AttemptLogDropped, OTel: "once.attempt_log.dropped", Unit: "{attempt}", Grows: true, Help: "Attempts that the attempt log has dropped."},

	{Name: gaugename.CacheHits, OTel: "once.cache.hits", Unit: "{look_up}", Grows: true, Help: "Results that were found in Config.Cache."},
	{Name: gaugename.CacheMisses, OTel: "once.cache.misses", Unit: "{look_up}", Grows: true, Help: "Results that were not found in Config.Cache."},
	{Name: gaugename.CacheBytes, OTel: "once.cache.size", Unit: "By", Help: "Memory that results take in Config.Cache."},
	{Name: gaugename.SharedCacheHits, OTel: "once.shared_cache.hits", Unit: "{look_up}", Grows: true, Help: "Results that were found in Config.Shared."},
	{Name: gaugename.SharedCacheMisses, OTel: "once.shared_cache.misses", Unit: "{look_up}", Grows: true, Help: "Results that were not found in Config.Shared."},
	{Name: gaugename.SharedCacheSkipped, OTel: "once.shared_cache.skipped", Unit: "{result}", Grows: true, Help: "Results that were not read from or written to Config.Shared: the cache has failed several times in a row, too many requests to it are in flight, or the result is too large."},
	{Name: gaugename.SharedCacheErrors, OTel: "once.shared_cache.errors", Unit: "{request}", Grows: true, Help: "Requests to Config.Shared that have failed or were not answered in time, and values that could not be read."},

	{Name: gaugename.RetryBudgetBalance, OTel: "once.retry.budget_balance", Unit: "{retry}", Label: "destination", fold: lowest, Help: "Retries that a budget still allows."},
	{Name: gaugename.BreakerOpen, OTel: "once.breaker.open", Unit: "1", Label: "destination", fold: highest, Help: "1 while a circuit breaker is open or lets single attempts through, 0 while it is closed."},
	{Name: gaugename.LimiterRunning, OTel: "once.limiter.running", Unit: "{request}", Help: "Requests that a limiter serves now."},
	{Name: gaugename.LimiterWaiting, OTel: "once.limiter.waiting", Unit: "{request}", Help: "Requests that wait for their turn."},
	{Name: gaugename.LimiterCapacity, OTel: "once.limiter.capacity", Unit: "{request}", Help: "Requests that a limiter serves at the same time."},
	{Name: gaugename.LimiterRefused, OTel: "once.limiter.refused", Unit: "{request}", Label: "reason", Grows: true, Help: "Requests that a limiter has refused."},
	{Name: gaugename.QuotaLargestBytes, OTel: "once.quota.largest", Unit: "By", fold: highest, Help: "Stored bytes of the principal with the most, by the last count of a quota plus the bytes that this process has added since."},
	{Name: gaugename.QuotaRefused, OTel: "once.quota.refused", Unit: "{request}", Grows: true, Help: "Requests that were refused because their principal has used its quota of stored bytes up."},
	{Name: gaugename.PoolConnections, OTel: "once.pool.connections", Unit: "{connection}", Label: "state", Help: "Connections of the pool: those that are in_use, and those that are idle."},
	{Name: gaugename.PoolMaxConnections, OTel: "once.pool.max_connections", Unit: "{connection}", Help: "How many connections the pool may have."},

	{Name: gaugename.Age, OTel: "once.watch.age", Unit: "s", fold: highest, Help: "Time since the last answer of the source of gauges that has not answered for the longest time."},
}

var byName = func() map[string]*Instrument {
	m := make(map[string]*Instrument, len(instruments))
	for i := range instruments {
		m[instruments[i].Name] = &instruments[i]
	}
	return m
}()

// Instruments returns the description of each name.
func Instruments() []Instrument { return append([]Instrument(nil), instruments...) }
