package oncehttp_test

// Codes that have no name outside of the package.
const (
	problemErrorSwallowed    = "INTERNAL.statement_error_swallowed"
	problemTransactionMisuse = "INTERNAL.transaction_misused"
	problemResponseTooLarge  = "INTERNAL.response_too_large"
	problemStreaming         = "INTERNAL.streaming_refused"
	problemFormParsed        = "INTERNAL.form_parsed"
	problemBodyConsumed      = "INTERNAL.body_consumed"
	problemTimeoutInvalid    = "VALIDATION.request_timeout_invalid"
	problemFirstSentInvalid  = "VALIDATION.first_sent_invalid"
	problemNotFound          = "NOT_FOUND.operation"
)
