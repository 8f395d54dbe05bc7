package gateway

import (
	"context"
	"net/http"
)

// Headers of a forward. The service writes both values into the receipt. A client cannot set them.
const (
	OperationHeader   = "Once-Operation"   // a UUID: the primary key of the receipt
	FingerprintHeader = "Once-Fingerprint" // of the request, in hexadecimal
)

// OutcomeHeader of an answer, with the value OutcomeNotExecuted, says that the request was not executed and never will be. Without it, 502, 503 and
// 504 prove nothing: a proxy may send them after the service has done the work.
const (
	OutcomeHeader      = "Once-Outcome"
	OutcomeNotExecuted = "not-executed"
)

// Receipt is a row that a service has committed in the transaction in which it did the work of an operation. It is proof: if it exists, the work is
// done; if a tombstone exists in its place, the transaction of the service cannot commit any more.
type Receipt struct {
	Operation   string      // the value of OperationHeader
	Fingerprint string      // the value of FingerprintHeader; "" if the service has not stored it, and then nothing is compared
	Status      int         // of the answer; 0 for a tombstone
	Header      http.Header // of the answer; nil if the service has not stored it
	Body        []byte      // of the answer
	Tombstone   bool        // written by Settle: the operation was not executed and never will be under this id
}

// Receipts reads the receipts of a service, in its database or through an endpoint of it. Its methods are called concurrently. Each call ends with
// its context.
type Receipts interface {
	// Look reads. If found is false, that proves nothing: the transaction of the service may still commit.
	Look(ctx context.Context, operation string) (r Receipt, found bool, err error)

	// Settle writes a tombstone unless a receipt exists, and then reads, in this order. Its result is final: the receipt, or the tombstone. It waits
	// for a transaction of the service that has inserted the receipt and has not committed. If ctx ends meanwhile, or anything else fails, it returns
	// an error: then the outcome is as unknown as before, and a tombstone may exist.
	Settle(ctx context.Context, operation string) (Receipt, error)
}
