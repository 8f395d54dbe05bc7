package dynamostore

import (
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/store"
)

// Tx collects the items that are written together with the record of an operation. Nothing is sent before the
// handler has returned, so the methods of Tx do not wait for the network. If a method returns an error, all
// later methods return an error, too, and nothing is committed.
//
// Tx has no methods that read data. If a handler reads data with its own client, the data may have changed
// when the operation commits. A write that depends on data which the handler has read must have a condition
// that checks this data. If a condition is not true at the commit, nothing is committed, and the operation
// fails with an error whose cause is [store.ErrRows].
type Tx struct {
	mu     sync.Mutex
	items  []types.TransactWriteItem
	err    error
	over   bool
	refuse func() bool // store.BeginOptions.Refuse
}

var (
	errOver    = errors.New("dynamostore: the handler has returned, so its transaction accepts no more writes. Try: add all writes before the handler returns")
	errNoTable = errors.New("dynamostore: a write of the handler has no table, or has no item and no key. Try: set TableName, and Item or Key")
	errRefused = errors.New("dynamostore: a test has made this write fail")
)

// Put adds the write of an item to the commit.
func (t *Tx) Put(p types.Put) error {
	return t.add(types.TransactWriteItem{Put: &p})
}

// Update adds the update of an item to the commit.
func (t *Tx) Update(u types.Update) error {
	return t.add(types.TransactWriteItem{Update: &u})
}

// Delete adds the deletion of an item to the commit.
func (t *Tx) Delete(d types.Delete) error {
	return t.add(types.TransactWriteItem{Delete: &d})
}

// Check adds a condition to the commit. The condition is for an item that the commit does not write.
func (t *Tx) Check(c types.ConditionCheck) error {
	return t.add(types.TransactWriteItem{ConditionCheck: &c})
}

// add adds a write to the commit, unless the handler has returned or an earlier write has failed.
func (t *Tx) add(w types.TransactWriteItem) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return errOver
	case t.err != nil:
		return fmt.Errorf("dynamostore: the transaction accepts no more writes, because an earlier write has failed: %w", t.err)
	// Only tests set refuse.
	case t.refuse != nil && t.refuse():
		t.err = errRefused
	default:
		t.err = valid(w)
	}
	// A failed write is kept as well: it counts as a statement of the handler.
	t.items = append(t.items, w)
	return t.err
}

// end returns the collected items. After end, no more items are accepted.
func (t *Tx) end() ([]types.TransactWriteItem, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.items, t.err
}

func (t *Tx) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.items)
}

// valid returns an error if the client would refuse to send w.
func valid(w types.TransactWriteItem) error {
	var table *string
	var key item
	switch {
	case w.Put != nil:
		table, key = w.Put.TableName, w.Put.Item
	case w.Update != nil:
		table, key = w.Update.TableName, w.Update.Key
	case w.Delete != nil:
		table, key = w.Delete.TableName, w.Delete.Key
	case w.ConditionCheck != nil:
		table, key = w.ConditionCheck.TableName, w.ConditionCheck.Key
	}
	if aws.ToString(table) == "" || len(key) == 0 {
		return errNoTable
	}
	return nil
}

// writeOf returns the write of a statement that travels with a commit. once.Batch declares it as b.Exec("item", types.TransactWriteItem{...}).
func writeOf(st store.Statement) (w types.TransactWriteItem, err error) {
	if st.SQL == "item" && len(st.Args) == 1 {
		switch a := st.Args[0].(type) {
		case types.TransactWriteItem:
			w = a
		case types.Put:
			w.Put = &a
		case types.Update:
			w.Update = &a
		case types.Delete:
			w.Delete = &a
		case types.ConditionCheck:
			w.ConditionCheck = &a
		}
	}
	if err := valid(w); err != nil {
		return w, fmt.Errorf(`dynamostore: the statement %q does not write an item. Try: b.Exec("item", types.Put{...}): %w`, st.SQL, err)
	}
	if st.Rows > 1 {
		return w, fmt.Errorf("%w: dynamostore: a write changes exactly one item, but Statement.Rows is %d", store.ErrRows, st.Rows)
	}
	return w, nil
}
