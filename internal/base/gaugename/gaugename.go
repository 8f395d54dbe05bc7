// Package gaugename has the names of the gauges, in the form of Prometheus. Package gauge describes them.
package gaugename

// The names.
const (
	UnfinishedOperations = "once_unfinished_operations"
	UnfinishedOldestAge  = "once_unfinished_oldest_age_seconds"
	WaitingOperations    = "once_waiting_operations"
	WaitingOldestAge     = "once_waiting_oldest_age_seconds"
	UnknownOperations    = "once_unknown_operations"
	UnknownOldestAge     = "once_unknown_oldest_age_seconds"
	ExpiredOperations    = "once_expired_operations"
	ExpiredOldestAge     = "once_expired_oldest_age_seconds"

	NamedUnfinishedOperations = "once_named_unfinished_operations"
	NamedWaitingOperations    = "once_named_waiting_operations"
	NamedUnknownOperations    = "once_named_unknown_operations"

	OutboxMessages        = "once_outbox_messages"
	OutboxReadyOldestAge  = "once_outbox_ready_oldest_age_seconds"
	OutboxTopics          = "once_outbox_topics"
	OutboxOldestAge       = "once_outbox_oldest_age_seconds"
	OutboxFailingMessages = "once_outbox_failing_messages"
	OutboxBlockedKeys     = "once_outbox_blocked_keys"
	InboxParkedMessages   = "once_inbox_parked_messages"
	InboxParkedOldestAge  = "once_inbox_parked_oldest_age_seconds"
	DeadLetters           = "once_dead_letters"

	SagasDue                  = "once_sagas_due"
	SagasDueOldestAge         = "once_sagas_due_oldest_age_seconds"
	SagasStuck                = "once_sagas_stuck"
	SagasBehindPivot          = "once_sagas_behind_pivot"
	SagasBehindPivotOldestAge = "once_sagas_behind_pivot_oldest_age_seconds"

	WebhookDeliveries        = "once_webhook_deliveries"
	WebhookDueEndpoints      = "once_webhook_due_endpoints"
	WebhookDueOldestAge      = "once_webhook_due_oldest_age_seconds"
	WebhookCircuitsOpen      = "once_webhook_circuits_open"
	WebhookDisabledEndpoints = "once_webhook_disabled_endpoints"
	WebhookRelays            = "once_webhook_relays"
	WebhookSlowRequests      = "once_webhook_slow_requests"

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

	SharedCacheHits    = "once_shared_cache_hits_total"
	SharedCacheMisses  = "once_shared_cache_misses_total"
	SharedCacheSkipped = "once_shared_cache_skipped_total"
	SharedCacheErrors  = "once_shared_cache_errors_total"

	RetryBudgetBalance = "once_retry_budget_balance"
	BreakerOpen        = "once_breaker_open"
	LimiterRunning     = "once_limiter_running"
	LimiterWaiting     = "once_limiter_waiting"
	LimiterCapacity    = "once_limiter_capacity"
	LimiterRefused     = "once_limiter_refused_total"
	QuotaLargestBytes  = "once_quota_largest_bytes"
	QuotaRefused       = "once_quota_refused_total"
	PoolConnections    = "once_pool_connections"
	PoolMaxConnections = "once_pool_max_connections"

	Age = "once_watch_age_seconds"
)
