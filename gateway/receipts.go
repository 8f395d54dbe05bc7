package gateway

import (
	"context"
	"net/http"
)

// Headers that a forward has for the service. The service writes both into the receipt. Those of a client never reach it.
const (
	OperationHeader   = "Once-Operation"   // a UUID: the primary key of the receipt
	FingerprintHeader = "Once-Fingerprint" // of the request, in hexadecimal
)

// OutcomeHeader of an answer says, with the value OutcomeNotExecuted, that the request was not executed and never will be.
// Without it, 502, 503 and 504 tell nothing: a proxy answers with them also after the service has done the work.
const (
	OutcomeHeader      = "Once-Outcome"
	OutcomeNotExecuted = "not-executed"
)

// Receipt is what a service has committed of an operation, in the transaction in which it did the work. It is proof: if it is
// there, the work is done; if a tombstone has its place, the transaction of the service cannot commit any more.
type Receipt struct {
	Operation   string      // the value of OperationHeader
	Fingerprint string      // the value of FingerprintHeader; "": the service has not stored it, and nothing is compared
	Status      int         // of the answer; 0 for a tombstone
	Header      http.Header // of the answer; nil: the service has stored none
	Body        []byte      // of the answer
	Tombstone   bool        // written by Settle: the operation was not executed and never will be under this id
}

// Receipts reads the receipts of a service, in its database or through an endpoint of it. It is used by many goroutines at the
// same time. Each call ends with its context.
type Receipts interface {
	// Look reads. If found is false, that proves nothing: the transaction of the service may yet commit.
	Look(ctx context.Context, operation string) (r Receipt, found bool, err error)

	// Settle writes a tombstone unless there is a receipt, and then reads, in this order. What it returns is final: the receipt, or
	// the tombstone. It waits for a transaction of the service that has inserted the receipt and has not committed; if ctx ends
	// meanwhile, or whatever else fails, it returns an error, and the outcome is as unknown as before. A tombstone may stand then.
	Settle(ctx context.Context, operation string) (Receipt, error)
}
