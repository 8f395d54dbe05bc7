package gauge

import (
	"github.com/oncelib/once/store/upkeep"
)

// Names of the gauges, in the form of Prometheus.
const (
	UnfinishedOperations = "once_unfinished_operations"
	UnfinishedOldestAge  = "once_unfinished_oldest_age_seconds"
	WaitingOperations    = "once_waiting_operations"
	WaitingOldestAge     = "once_waiting_oldest_age_seconds"
	UnknownOperations    = "once_unknown_operations"
	UnknownOldestAge     = "once_unknown_oldest_age_seconds"
	ExpiredOperations    = "once_expired_operations"
	ExpiredOldestAge     = "once_expired_oldest_age_seconds"

	OutboxMessages        = "once_outbox_messages"
	OutboxReadyOldestAge  = "once_outbox_ready_oldest_age_seconds"
	OutboxTopics          = "once_outbox_topics"
	OutboxOldestAge       = "once_outbox_oldest_age_seconds"
	OutboxFailingMessages = "once_outbox_failing_messages"
	OutboxBlockedKeys     = "once_outbox_blocked_keys"
	InboxParkedMessages   = "once_inbox_parked_messages"
	InboxParkedOldestAge  = "once_inbox_parked_oldest_age_seconds"
	DeadLetters           = "once_dead_letters"

	ConsumerReadyMessages      = "once_consumer_ready_messages"
	ConsumerReadyOldestAge     = "once_consumer_ready_oldest_age_seconds"
	ConsumerPostponedMessages  = "once_consumer_postponed_messages"
	ConsumerPostponedOldestAge = "once_consumer_postponed_oldest_age_seconds"
	ConsumerPausedPartitions   = "once_consumer_paused_partitions"
	ConsumerHangingHandlers    = "once_consumer_hanging_handlers"

	AttemptLogDropped = "once_attempt_log_dropped_total"

	CacheHits   = "once_cache_hits_total"
	CacheMisses = "once_cache_misses_total"
	CacheBytes  = "once_cache_bytes"

	RetryBudgetBalance = "once_retry_budget_balance"
	BreakerOpen        = "once_breaker_open"
	LimiterRunning     = "once_limiter_running"
	LimiterWaiting     = "once_limiter_waiting"
	LimiterCapacity    = "once_limiter_capacity"
	LimiterRefused     = "once_limiter_refused_total"
	PoolConnections    = "once_pool_connections"
	PoolMaxConnections = "once_pool_max_connections"

	Age = "once_watch_age_seconds"
)

// Most is how many things a source counts in a database at most: a count reads them all.
const Most = upkeep.MaxBacklog

// fold is what becomes of two values with the same name and label.
type fold uint8

const (
	sum fold = iota
	highest
	lowest
)

// Instrument is what is known of the values with one name.
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
	{Name: UnfinishedOperations, OTel: "once.unfinished.operations", Unit: "{operation}", Help: "Operations that are claimed and not done, at most 100,000 are counted."},
	{Name: UnfinishedOldestAge, OTel: "once.unfinished.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest operation that is not done."},
	{Name: UnknownOperations, OTel: "once.unknown.operations", Unit: "{operation}", Help: "Operations whose outcome only a person can find out, at most 100,000 are counted."},
	{Name: UnknownOldestAge, OTel: "once.unknown.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest operation whose outcome is unknown."},
	{Name: ExpiredOperations, OTel: "once.expired.operations", Unit: "{operation}", Help: "Operations whose retention is over and that are not swept yet, at most 100,000 are counted."},
	{Name: ExpiredOldestAge, OTel: "once.expired.oldest_age", Unit: "s", fold: highest, Help: "How long ago the retention of the oldest such operation ended."},
	{Name: WaitingOperations, OTel: "once.waiting.operations", Unit: "{operation}", Help: "Operations that were begun and wait for their next owner, at most 100,000 are counted."},
	{Name: WaitingOldestAge, OTel: "once.waiting.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest operation that waits for its next owner."},

	{Name: OutboxMessages, OTel: "once.outbox.messages", Unit: "{message}", Help: "Messages that wait for delivery, at most 100,000 are counted."},
	{Name: OutboxOldestAge, OTel: "once.outbox.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest message that waits for delivery."},
	{Name: OutboxReadyOldestAge, OTel: "once.outbox.ready.oldest_age", Unit: "s", fold: highest, Help: "Age of the oldest message of the outbox that nothing holds back: its topic is in no state of once_outbox_topics but failing, and its key waits for no other message."},
	{Name: OutboxTopics, OTel: "once.outbox.topics", Unit: "{topic}", Label: "state", Help: "Topics of the outbox whose messages wait: a person has paused them, their destination is down or hanging, they are full of messages that fail, over their rate, or some of their messages are failing."},
	{Name: OutboxFailingMessages, OTel: "once.outbox.failing_messages", Unit: "{message}", Help: "Messages whose delivery has failed and is tried again."},
	{Name: OutboxBlockedKeys, OTel: "once.outbox.blocked_keys", Unit: "{key}", Help: "Keys whose first message is failing or given up: later ones wait for it."},
	{Name: InboxParkedMessages, OTel: "once.inbox.parked_messages", Unit: "{message}", Help: "Messages that wait for an earlier one of their key, at most 100,000 are counted."},
	{Name: InboxParkedOldestAge, OTel: "once.inbox.parked_oldest_age", Unit: "s", fold: highest, Help: "The longest time for which a key with parked messages has waited."},
	{Name: ConsumerReadyMessages, OTel: "once.consumer.ready.messages", Unit: "{message}", Help: "Messages that consumers of this process have, and that a handler could begin with."},
	{Name: ConsumerReadyOldestAge, OTel: "once.consumer.ready.oldest_age", Unit: "s", fold: highest, Help: "For how long the oldest of them has waited."},
	{Name: ConsumerPostponedMessages, OTel: "once.consumer.postponed.messages", Unit: "{message}", Help: "Messages that consumers of this process have, and that have failed and wait for their next attempt, or wait for another message of their key."},
	{Name: ConsumerPostponedOldestAge, OTel: "once.consumer.postponed.oldest_age", Unit: "s", fold: highest, Help: "For how long the oldest of them has waited."},
	{Name: ConsumerPausedPartitions, OTel: "once.consumer.paused.partitions", Unit: "{partition}", Help: "Partitions of Kafka that are not fetched, because messages in trouble have used their limits."},
	{Name: ConsumerHangingHandlers, OTel: "once.consumer.hanging.handlers", Unit: "{handler}", Help: "Handlers of messages that go on although their time is over."},
	{Name: DeadLetters, OTel: "once.dead_letters", Unit: "{message}", Help: "Messages that are given up and wait for a person, at most 100,000 are counted."},
	{Name: AttemptLogDropped, OTel: "once.attempt_log.dropped", Unit: "{attempt}", Grows: true, Help: "Attempts that the attempt log has not noted."},

	{Name: CacheHits, OTel: "once.cache.hits", Unit: "{look_up}", Grows: true, Help: "Results that were found in Config.Cache."},
	{Name: CacheMisses, OTel: "once.cache.misses", Unit: "{look_up}", Grows: true, Help: "Results that were not found in Config.Cache."},
	{Name: CacheBytes, OTel: "once.cache.size", Unit: "By", Help: "Memory that results take in Config.Cache."},

	{Name: RetryBudgetBalance, OTel: "once.retry.budget_balance", Unit: "{retry}", Label: "destination", fold: lowest, Help: "Retries that a budget still allows."},
	{Name: BreakerOpen, OTel: "once.breaker.open", Unit: "1", Label: "destination", fold: highest, Help: "1 while a circuit breaker is open or lets single attempts through, 0 while it is closed."},
	{Name: LimiterRunning, OTel: "once.limiter.running", Unit: "{request}", Help: "Requests that a limiter serves now."},
	{Name: LimiterWaiting, OTel: "once.limiter.waiting", Unit: "{request}", Help: "Requests that wait for their turn."},
	{Name: LimiterCapacity, OTel: "once.limiter.capacity", Unit: "{request}", Help: "Requests that a limiter serves at the same time."},
	{Name: LimiterRefused, OTel: "once.limiter.refused", Unit: "{request}", Label: "reason", Grows: true, Help: "Requests that a limiter has refused."},
	{Name: PoolConnections, OTel: "once.pool.connections", Unit: "{connection}", Label: "state", Help: "Connections of the pool: those that are in_use, and those that are idle."},
	{Name: PoolMaxConnections, OTel: "once.pool.max_connections", Unit: "{connection}", Help: "How many connections the pool may have."},

	{Name: Age, OTel: "once.watch.age", Unit: "s", fold: highest, Help: "Time since the last answer of the source of gauges that is the furthest behind."},
}

var byName = func() map[string]*Instrument {
	m := make(map[string]*Instrument, len(instruments))
	for i := range instruments {
		m[instruments[i].Name] = &instruments[i]
	}
	return m
}()

// Instruments returns what is known of each name.
func Instruments() []Instrument { return append([]Instrument(nil), instruments...) }
