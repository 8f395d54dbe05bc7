package dynamostore

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/store"
)

// expression collects the names and values of the expressions of one request. Each attribute has a placeholder, because DynamoDB reserves many names.
type expression struct {
	names  map[string]string
	values item
}

func newExpression() *expression { return &expression{names: map[string]string{}} }

// name returns the placeholder of an attribute.
func (e *expression) name(attribute string) string {
	e.names["#"+attribute] = attribute
	return "#" + attribute
}

// value returns a new placeholder for v.
func (e *expression) value(v types.AttributeValue) string {
	if e.values == nil { // the service refuses an empty map, so it is made with the first value
		e.values = item{}
	}
	key := ":v" + strconv.Itoa(len(e.values))
	e.values[key] = v
	return key
}

// compare returns a comparison of an attribute with v.
func (e *expression) compare(attribute, operator string, v types.AttributeValue) string {
	return e.name(attribute) + " " + operator + " " + e.value(v)
}

// expects returns the condition that a record matches x.
func (e *expression) expects(x store.Expect, now time.Time) *string {
	if x.Fence == 0 {
		// An expired record counts as absent, even if its item still exists.
		s := "attribute_not_exists(" + e.name("id") + ") OR " + e.compare("until", "<=", micros(now))
		return &s
	}
	all := []string{
		e.compare("fence", "=", number(x.Fence)),
		// A finished record never changes, whatever its fence is.
		e.compare("state", "<>", number(int64(store.StateDone))),
	}
	if len(x.Nonce) > 0 {
		all = append(all, e.compare("nonce", "=", &types.AttributeValueMemberB{Value: x.Nonce}))
	}
	if x.LeaseExpired {
		all = append(all, e.compare("state", "=", number(int64(store.StateRunning))), e.compare("lease", "<=", micros(now)))
	}
	s := strings.Join(all, " AND ")
	return &s
}

// holds returns the condition that an operation is running under the claim h.
func (e *expression) holds(h store.Hold) *string {
	s := strings.Join([]string{
		e.compare("state", "=", number(int64(store.StateRunning))),
		e.compare("fence", "=", number(h.Fence)),
		e.compare("nonce", "=", &types.AttributeValueMemberB{Value: h.Nonce}),
	}, " AND ")
	return &s
}

// record returns the write of the record that c asks for.
func (s *Store) record(c *store.Change, id string, now time.Time) (w types.TransactWriteItem) {
	e := newExpression()
	condition := e.expects(c.Expect, now)
	key := item{"id": text(id)}
	// The service then returns the record that has refused the write, which saves a read.
	tell := types.ReturnValuesOnConditionCheckFailureAllOld
	switch {
	case c.Next.State == store.StateAbsent:
		w.Delete = &types.Delete{
			TableName: &s.table, Key: key, ConditionExpression: condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: tell,
		}
	// Put also replaces an expired record, and leaves nothing of it.
	case c.Expect.Fence == 0:
		w.Put = &types.Put{
			TableName: &s.table, Item: itemOf(c, id, now), ConditionExpression: condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: tell,
		}
	default:
		update := e.update(itemOf(c, id, now), c.KeepRequest)
		w.Update = &types.Update{
			TableName: &s.table, Key: key, ConditionExpression: condition, UpdateExpression: &update,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: tell,
		}
	}
	return w
}

// update sets all attributes of an existing record and removes the attributes without a new value. It leaves since unchanged and, if keep is
// true, the attributes in kept.
func (e *expression) update(it item, keep bool) string {
	var set, remove []string
	for _, a := range attributes {
		v, has := it[a]
		switch {
		case keep && kept[a]:
		case has:
			set = append(set, e.compare(a, "=", v))
		default:
			remove = append(remove, e.name(a))
		}
	}
	return "SET " + strings.Join(set, ", ") + " REMOVE " + strings.Join(remove, ", ")
}

// check returns the condition check of h: the transaction commits only if h is still held.
func (s *Store) check(h store.Hold) (w types.TransactWriteItem, err error) {
	id, err := idOf(h.ID)
	if err != nil {
		return w, err
	}
	e := newExpression()
	condition := e.holds(h)
	w.ConditionCheck = &types.ConditionCheck{
		TableName: &s.table, Key: item{"id": text(id)}, ConditionExpression: condition,
		ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
	}
	return w, nil
}

// checks returns one check for each hold, without duplicates: DynamoDB refuses two writes of one item.
func (s *Store) checks(held []store.Hold) (list []types.TransactWriteItem, err error) {
	for i, h := range held {
		same := func(o store.Hold) bool {
			return o.ID == h.ID && o.Fence == h.Fence && string(o.Nonce) == string(h.Nonce)
		}
		if slices.ContainsFunc(held[:i], same) {
			continue
		}
		if len(h.Nonce) == 0 { // every record has a nonce, and DynamoDB refuses an empty value
			return nil, &store.Error{Kind: store.KindTaken, Err: errNotHeld}
		}
		w, err := s.check(h)
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}
