package gateway

import (
	"context"
	"net/http"
)

// The gateway sets the headers OperationHeader and FingerprintHeader in each request that it forwards. The
// service writes the values of both headers into the receipt. If a client sends the header OperationHeader or
// FingerprintHeader, the gateway does not forward the value that the client has sent.
const (
	OperationHeader   = "Once-Operation"   // a UUID: the primary key of the receipt
	FingerprintHeader = "Once-Fingerprint" // the fingerprint of the request, in hexadecimal
)

// If the header OutcomeHeader of an answer has the value OutcomeNotExecuted, the request was not executed and
// never will be. If an answer does not have the header OutcomeHeader, its status code 502, 503 or 504 proves
// nothing: a proxy may send such a status code after the service has done the work.
const (
	OutcomeHeader      = "Once-Outcome"
	OutcomeNotExecuted = "not-executed"
)

// Receipt is a row that a service has committed in the transaction in which the service did the work of an
// operation. If a receipt exists, the work is done. If a tombstone (a row that Settle has written in place of the
// receipt) exists, the transaction of the service cannot commit any more.
type Receipt struct {
	Operation   string      // the value of OperationHeader
	Fingerprint string      // the value of FingerprintHeader; "" if the service has not stored the fingerprint; the gateway then does not compare fingerprints
	Status      int         // the status of the answer; 0 if Tombstone is true
	Header      http.Header // the header of the answer; nil if the service has not stored the header
	Body        []byte      // the body of the answer
	Tombstone   bool        // true if Settle has written the row: the operation was not executed, and never will be executed under this ID
}

// Receipts reads the receipts of a service, either from the service's database or through an HTTP endpoint of
// the service. The gateway calls the methods of Receipts concurrently. Each method of Receipts must return
// when its context ends.
type Receipts interface {
	// Look reads the receipt of an operation. The result found = false proves nothing: the transaction of
	// the service may still commit.
	Look(ctx context.Context, operation string) (r Receipt, found bool, err error)

	// If no receipt exists, Settle writes a tombstone, a row that prevents the service from writing a receipt.
	// Then Settle reads the receipt or the tombstone. The result of Settle is final: either the receipt or the
	// tombstone. Settle waits for a transaction of the service that has inserted the receipt and has not
	// committed. If ctx ends while Settle waits, or if anything else fails, Settle returns an error. If Settle
	// has returned an error, the outcome is still unknown, and a tombstone may exist.
	Settle(ctx context.Context, operation string) (Receipt, error)
}
