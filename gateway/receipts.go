package gateway

import (
	"context"
	"net/http"
)

// The gateway sets these headers in each request that it forwards. The service writes the values of
// both headers into the receipt. A client cannot set these headers.
const (
	OperationHeader   = "Once-Operation"   // a UUID: the primary key of the receipt
	FingerprintHeader = "Once-Fingerprint" // the fingerprint of the request, in hexadecimal
)

// If the header OutcomeHeader of an answer has the value OutcomeNotExecuted, the request was not executed and
// never will be. If an answer does not have this header, its status code 502, 503 or 504 proves nothing: a
// proxy may send them after the service has done the work.
const (
	OutcomeHeader      = "Once-Outcome"
	OutcomeNotExecuted = "not-executed"
)

// Receipt is a row that a service has committed in the transaction in which it did the work of an operation. If
// a receipt exists, the work is done. If a tombstone exists instead of the receipt, the transaction of the
// service cannot commit any more.
type Receipt struct {
	Operation   string      // the value of OperationHeader
	Fingerprint string      // the value of FingerprintHeader; "" if the service has not stored it, then fingerprints are not compared
	Status      int         // the status of the answer; 0 for a tombstone
	Header      http.Header // the header of the answer; nil if the service has not stored the header
	Body        []byte      // of the answer
	Tombstone   bool        // written by Settle: the operation was not executed and never will be under this id
}

// Receipts reads the receipts of a service, either from the service's database or through an HTTP endpoint of
// the service. The gateway calls the methods of Receipts concurrently. A method must return when its context
// ends.
type Receipts interface {
	// Look reads the receipt of an operation. The result found = false proves nothing: the transaction of
	// the service may still commit.
	Look(ctx context.Context, operation string) (r Receipt, found bool, err error)

	// Settle first writes a tombstone unless a receipt exists, and then reads the row. The result of Settle is
	// final: either the receipt or the tombstone. Settle waits for a transaction of the service that has
	// inserted the receipt and has not committed. If ctx ends during this wait, or anything else fails, Settle
	// returns an error. After an error the outcome is still unknown, and a tombstone may exist.
	Settle(ctx context.Context, operation string) (Receipt, error)
}
