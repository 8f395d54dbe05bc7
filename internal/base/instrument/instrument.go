// Package instrument contains the names and labels of the counters and histograms of this library. The packages that send
// events say which instrument an event changes: package meter for the engine, and outbox, inbox, retry and saga. Packages
// onceprom and onceotel both record these values, so they cannot differ, and they do not import those packages.
package instrument

// ID identifies an instrument: its position in [All].
type ID int

// The instruments.
const (
	Operations ID = iota
	Retries
	Reruns
	Deadlocks
	Mismatches
	InDoubt
	Settled
	EffectsOutside
	RetryAttempts
	RetryCalls
	RetrySuppressed
	OutboxDeliveries
	InboxMessages
	Sagas
	SagaRetries
	WebhookAttempts
	WebhookDisabled
	WebhookOwnFailures
	OperationDuration
	HandlerDuration
	AcquireWait
	LockWait
	CommitDuration
	RetryDelay

	count
)

// MaxLabels is the largest number of labels of an instrument.
const MaxLabels = 3

// Instrument is a counter or a histogram.
type Instrument struct {
	Name    string    // of Prometheus
	OTel    string    // its name for OpenTelemetry
	Unit    string    // its unit for OpenTelemetry, in the words of UCUM
	Labels  []string  // the names of its labels, at most MaxLabels
	Buckets []float64 // the upper bounds of the buckets; nil for a counter
	Help    string
}

// An application chooses the values of the labels operation, destination, topic, source, saga and step. The values of the
// other labels are constants. Scope, key and tenant are never a label, because each value would be a new series.
var (
	operation            = []string{"operation"}
	destination          = []string{"destination"}
	operationAndEffect   = []string{"operation", "effect"}
	operationAndDecision = []string{"operation", "decision"}
)

// seconds are the buckets of durations. Each bucket is a line of each scrape for each series, so there are few. Native
// histograms are finer.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}

// All contains the instruments, by ID.
var All = [count]Instrument{
	Operations:         {Name: "once_operations_total", OTel: "once.operations", Unit: "{operation}", Labels: []string{"operation", "decision", "effect"}, Help: "Calls that have ended, by their decision and by whether the write is committed."},
	Retries:            {Name: "once_retries_total", OTel: "once.retries", Unit: "{operation}", Labels: operation, Help: "Calls whose client says that they are a retry (Once-Attempt above 1). This is a lower bound, because a client may omit the header."},
	Reruns:             {Name: "once_reruns_total", OTel: "once.reruns", Unit: "{run}", Labels: operation, Help: "Runs of a handler that were rolled back and started again, after a serialization failure or a lost commit."},
	Deadlocks:          {Name: "once_deadlocks_total", OTel: "once.deadlocks", Unit: "{deadlock}", Labels: operation, Help: "Runs of a handler that the database has ended because of a deadlock."},
	Mismatches:         {Name: "once_mismatches_total", OTel: "once.mismatches", Unit: "{operation}", Labels: operation, Help: "Calls whose key was used for another request."},
	InDoubt:            {Name: "once_in_doubt_total", OTel: "once.in_doubt", Unit: "{commit}", Labels: operation, Help: "Commits whose answer was lost."},
	Settled:            {Name: "once_settled_total", OTel: "once.settled", Unit: "{commit}", Labels: operationAndEffect, Help: "Commits whose answer was lost, and whose outcome was found out."},
	EffectsOutside:     {Name: "once_effects_outside_total", OTel: "once.effects_outside", Unit: "{operation}", Labels: operation, Help: "Successes of handlers that have run no statement on their transaction."},
	RetryAttempts:      {Name: "once_retry_attempts_total", OTel: "once.retry.attempts", Unit: "{attempt}", Labels: []string{"destination", "class"}, Help: "Attempts of the retry client that have failed."},
	RetryCalls:         {Name: "once_retry_calls_total", OTel: "once.retry.calls", Unit: "{call}", Labels: []string{"destination", "outcome"}, Help: "Calls of the retry client that have ended."},
	RetrySuppressed:    {Name: "once_retry_suppressed_total", OTel: "once.retry.suppressed", Unit: "{attempt}", Labels: []string{"destination", "reason"}, Help: "Failures that may be temporary, and after which the retry client has made no further attempt."},
	OutboxDeliveries:   {Name: "once_outbox_deliveries_total", OTel: "once.outbox.deliveries", Unit: "{delivery}", Labels: []string{"topic", "result"}, Help: "Deliveries of messages of the outbox."},
	InboxMessages:      {Name: "once_inbox_messages_total", OTel: "once.inbox.messages", Unit: "{message}", Labels: []string{"source", "result"}, Help: "Messages that the inbox has received, and attempts that have failed."},
	Sagas:              {Name: "once_sagas_total", OTel: "once.sagas", Unit: "{saga}", Labels: []string{"saga", "result"}, Help: "Sagas that have completed, that were compensated, and that have become stuck."},
	SagaRetries:        {Name: "once_saga_retries_total", OTel: "once.saga.retries", Unit: "{attempt}", Labels: []string{"saga", "step"}, Help: "Attempts of steps and undos of sagas that have failed and are repeated."},
	WebhookAttempts:    {Name: "once_webhook_attempts_total", OTel: "once.webhook.attempts", Unit: "{attempt}", Labels: []string{"result"}, Help: "Attempts to deliver webhooks, by result: delivered, failed, or ran_out, after which the delivery waits for an operator."},
	WebhookDisabled:    {Name: "once_webhook_disabled_total", OTel: "once.webhook.disabled", Unit: "{endpoint}", Labels: []string{"reason"}, Help: "Endpoints of webhooks that a relay has disabled: gone, after an answer 410, or failing for too long."},
	WebhookOwnFailures: {Name: "once_webhook_own_failures_total", OTel: "once.webhook.own_failures", Unit: "{request}", Labels: []string{"reason"}, Help: "Requests that a relay of webhooks could not make because of its own process or network, which count against no endpoint: resources (no file, port or memory), proxy, route or name."},

	OperationDuration: {Name: "once_operation_duration_seconds", OTel: "once.operation.duration", Unit: "s", Labels: operationAndDecision, Buckets: seconds, Help: "Time from the beginning of a call to its end."},
	HandlerDuration:   {Name: "once_handler_duration_seconds", OTel: "once.handler.duration", Unit: "s", Labels: operation, Buckets: seconds, Help: "Time of the last run of the handler."},
	AcquireWait:       {Name: "once_acquire_wait_seconds", OTel: "once.acquire.wait", Unit: "s", Labels: operation, Buckets: seconds, Help: "Time for which a call has waited for a connection of the pool."},
	LockWait:          {Name: "once_lock_wait_seconds", OTel: "once.lock.wait", Unit: "s", Labels: operation, Buckets: seconds, Help: "Time for which a call has waited for a lock of the database."},
	CommitDuration:    {Name: "once_commit_duration_seconds", OTel: "once.commit.duration", Unit: "s", Labels: operation, Buckets: seconds, Help: "Time of the last commit."},
	RetryDelay:        {Name: "once_retry_delay_seconds", OTel: "once.retry.delay", Unit: "s", Labels: destination, Buckets: seconds, Help: "Pauses of the retry client before the next attempt."},
}
