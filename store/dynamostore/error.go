package dynamostore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/store"
)

// Limits of the service.
const (
	maxItems       = 100
	maxItem        = 400 << 10
	maxTransaction = 4 << 20
)

var errNotHeld = errors.New("this process no longer owns an operation that the transaction needs: another process has changed the operation")

// kinds maps the error codes of the service that say a write was not applied. All other codes are [store.KindOther].
var kinds = map[string]store.Kind{
	"TransactionConflictException":           store.KindRetry,
	"TransactionConflict":                    store.KindRetry,
	"ProvisionedThroughputExceededException": store.KindUnavailable,
	"ProvisionedThroughputExceeded":          store.KindUnavailable,
	"RequestLimitExceeded":                   store.KindUnavailable,
	"ThrottlingException":                    store.KindUnavailable,
	"ThrottlingError":                        store.KindUnavailable,
	"LimitExceededException":                 store.KindUnavailable,
	"ResourceNotFoundException":              store.KindUnavailable,
	"InternalServerError":                    store.KindUnavailable,
	"ServiceUnavailable":                     store.KindUnavailable,
	"TransactionInProgressException":         store.KindLost,
}

// kindOf returns the kind of an error of the client.
func kindOf(err error) store.Kind {
	var api smithy.APIError
	if !errors.As(err, &api) {
		// Not an answer of the service: it was not reached, or ctx has ended.
		return store.KindUnavailable
	}
	return kinds[api.ErrorCode()]
}

// failedRead returns the error of a request that has written nothing.
func failedRead(err error) error {
	if missing(err) {
		err = fmt.Errorf("%w: %w", store.ErrNotMigrated, err)
	}
	return &store.Error{Kind: kindOf(err), Err: err}
}

// refusal says why the service has not applied a write.
type refusal struct {
	kind   store.Kind
	record bool // the record does not match; item is the record, or nil if it is absent or not known
	item   item
	rows   bool // a condition of the handler's items does not hold
}

// refusalOf reads the error of a write. In a transaction, a refused record counts first: if the operation was done before, its items
// were written as well, and their conditions fail now. A conflict counts next: the other transaction may have made the conditions fail.
func refusalOf(err error, w *writes) refusal {
	var condition *types.ConditionalCheckFailedException
	if errors.As(err, &condition) {
		return refusal{kind: store.KindTaken, record: true, item: condition.Item}
	}
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) {
		return refusal{kind: kindOf(err)}
	}
	r, found := refusal{}, false
	for i, reason := range canceled.CancellationReasons {
		code := aws.ToString(reason.Code)
		failed := code == "ConditionalCheckFailed"
		switch {
		case failed && w.record && i == 0:
			return refusal{kind: store.KindTaken, record: true, item: reason.Item}
		case code == "TransactionConflict":
			r, found = refusal{kind: store.KindRetry}, true
		case found || code == "None" || code == "":
		case failed && i >= w.held:
			r, found = refusal{kind: store.KindTaken}, true
		case failed:
			r = refusal{kind: store.KindOther, rows: true}
		case !r.rows:
			r = refusal{kind: kinds[code]}
		}
	}
	return r
}

// explain returns err with the cause that a caller can act on.
func (r refusal) explain(err error) error {
	switch {
	case r.rows:
		return fmt.Errorf("%w: the condition of an item does not hold: %w", store.ErrRows, err)
	case r.kind == store.KindTaken:
		return fmt.Errorf("%w: %w", errNotHeld, err)
	case missing(err):
		return fmt.Errorf("%w, or a table that the handler writes does not exist: %w", store.ErrNotMigrated, err)
	case strings.Contains(err.Error(), "size has exceeded"):
		return &toolarge.Error{Max: maxItem, Try: tryItem, Err: err}
	}
	return err
}

const (
	tryItem        = "store the large data in a separate item or in S3, and return its key as the result"
	tryTransaction = "fewer or smaller items in one operation, and more operations for the rest"
)

// withinLimits returns an error if the service would refuse the transaction for its size.
func withinLimits(w writes) error {
	if len(w.items) > maxItems {
		err := fmt.Errorf("dynamostore: a transaction of DynamoDB can have at most %d items, which include the record and the checks of other operations, but this transaction has %d. Try: %s", maxItems, len(w.items), tryTransaction)
		return &store.Error{Kind: store.KindOther, Err: err}
	}
	all := 0
	for _, i := range w.items {
		n := sizeOf(i)
		if n > maxItem {
			return &store.Error{Kind: store.KindOther, Err: &toolarge.Error{Bytes: int64(n), Max: maxItem, Try: tryItem}}
		}
		all += n
	}
	if all > maxTransaction {
		return &store.Error{Kind: store.KindOther, Err: &toolarge.Error{Bytes: int64(all), Max: maxTransaction, Try: tryTransaction}}
	}
	return nil
}

// sizeOf returns a lower bound of the size of an item by the rules of the service.
func sizeOf(w types.TransactWriteItem) (n int) {
	var values item
	switch {
	case w.Put != nil:
		values = w.Put.Item
	case w.Update != nil:
		values = w.Update.ExpressionAttributeValues
	}
	for name, v := range values {
		if !strings.HasPrefix(name, ":") {
			n += len(name)
		}
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberB:
			n += len(v.Value)
		}
	}
	return n
}
