package dynamostore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/store"
)

var errKeep = errors.New("dynamostore: store.Change.KeepRequest is set, but Expect.Fence is 0, so there is no stored record whose request could be kept. Try: set Expect.Fence to the fence of the stored record")

// Swap implements [store.Operations].
func (s *Store) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	rec, err := s.apply(ctx, c, nil)
	if err != nil {
		return rec, err
	}
	return c.Next, nil
}

// apply sends one request that writes the record of c, the handler's items and the writes of c, if the expectation of c holds.
// Otherwise apply writes nothing, and returns the record that it conflicts with.
func (s *Store) apply(ctx context.Context, c store.Change, items []types.TransactWriteItem) (inTheWay store.Record, err error) {
	if err := ctx.Err(); err != nil {
		return inTheWay, failedRead(err)
	}
	if c.KeepRequest && c.Expect.Fence == 0 {
		return inTheWay, &store.Error{Kind: store.KindMisused, Err: errKeep}
	}
	w, err := s.writes(ctx, &c, items)
	// No request may be needed: a transaction without an ID and without items has nothing to write.
	if err != nil || len(w.items) == 0 {
		return inTheWay, err
	}
	d := &delivery{}
	// Only a new record can be too late: the owner of an existing record continues it.
	if w.record && c.Expect.Fence == 0 {
		d.staleAfter = c.StaleAfter
	}
	switch sending := d.in(ctx); {
	// Only a transaction takes a token, by which the service applies a repeated request once. A single request has none:
	// its nonce shows whether it was applied.
	// their nonce instead.
	case len(w.items) > 1 || !w.record:
		_, err = s.client.TransactWriteItems(sending, &dynamodb.TransactWriteItemsInput{TransactItems: w.items, ClientRequestToken: token(c.Next.Nonce)})
	default:
		err = s.single(sending, w.items[0])
	}
	if err == nil {
		return inTheWay, nil
	}
	return s.notApplied(ctx, &c, &w, d, err)
}

// writes are the items of one request, in this order: the record if it is written, the handler's items, the writes of the change, and the checks of Change.Held.
type writes struct {
	items  []types.TransactWriteItem
	record bool
	held   int // the index of the first check of Change.Held
}

// writes returns the items that apply sends for c, or an error if the service would refuse them.
func (s *Store) writes(ctx context.Context, c *store.Change, items []types.TransactWriteItem) (w writes, err error) {
	if !c.ID.IsZero() {
		id, err := idOf(c.ID)
		if err != nil {
			return w, err
		}
		now, err := s.now(ctx)
		if err != nil {
			return w, err
		}
		// The record comes first: refusalOf recognises it by its index.
		w.record = true
		w.items = append(w.items, s.record(c, id, now))
	}
	w.items = append(w.items, items...)
	for _, st := range c.Writes {
		i, err := writeOf(st)
		if err != nil {
			return w, &store.Error{Kind: store.KindOther, Err: err}
		}
		w.items = append(w.items, i)
	}
	w.held = len(w.items)
	checks, err := s.checks(c.Held)
	if err != nil {
		return w, err
	}
	w.items = append(w.items, checks...)
	return w, withinLimits(w)
}

// token returns a token by which the service recognises a request that the client sends again. The token begins with the nonce
// of the record, so that CloudTrail shows which call sent it. The random rest distinguishes two requests that have the same nonce.
// CloudTrail shows which call sent it. The random rest distinguishes two different requests that have the same nonce.
func token(nonce []byte) *string {
	var own [4]byte
	rand.Read(own[:])
	if len(nonce) < 12 { // a release has no nonce
		nonce = make([]byte, 12)
		rand.Read(nonce)
	}
	t := hex.EncodeToString(nonce[:12]) + hex.EncodeToString(own[:])
	return &t
}

// single sends the write of a record without a transaction, which costs half as much.
func (s *Store) single(ctx context.Context, w types.TransactWriteItem) (err error) {
	switch {
	case w.Put != nil:
		_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: w.Put.TableName, Item: w.Put.Item, ConditionExpression: w.Put.ConditionExpression,
			ExpressionAttributeNames: w.Put.ExpressionAttributeNames, ExpressionAttributeValues: w.Put.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: w.Put.ReturnValuesOnConditionCheckFailure,
		})
	case w.Update != nil:
		_, err = s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: w.Update.TableName, Key: w.Update.Key, ConditionExpression: w.Update.ConditionExpression, UpdateExpression: w.Update.UpdateExpression,
			ExpressionAttributeNames: w.Update.ExpressionAttributeNames, ExpressionAttributeValues: w.Update.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: w.Update.ReturnValuesOnConditionCheckFailure,
		})
	default:
		_, err = s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: w.Delete.TableName, Key: w.Delete.Key, ConditionExpression: w.Delete.ConditionExpression,
			ExpressionAttributeNames: w.Delete.ExpressionAttributeNames, ExpressionAttributeValues: w.Delete.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: w.Delete.ReturnValuesOnConditionCheckFailure,
		})
	}
	return err
}

// notApplied classifies the error of a write. It returns nil if the write was applied after all, because the client had sent it twice.
func (s *Store) notApplied(ctx context.Context, c *store.Change, w *writes, d *delivery, err error) (store.Record, error) {
	r := refusalOf(err, w)
	switch {
	// A late request was not sent, so nothing of it can be applied.
	case d.late && !d.uncertain():
		return s.late(ctx, c, err)
	case r.kind == store.KindTaken && r.record:
		return s.refused(ctx, c, d, r.item, err)
	case d.uncertain(): // an earlier request of this write may have been applied, whatever the last answer says
		return store.Record{}, &store.Error{Kind: store.KindLost, Err: err}
	}
	return store.Record{}, &store.Error{Kind: r.kind, Err: r.explain(err)}
}

// late returns the error for a change that was not sent because it was too late: [store.KindTaken] if a record exists, else [store.KindStale].
func (s *Store) late(ctx context.Context, c *store.Change, err error) (store.Record, error) {
	rec, failed := s.Read(ctx, c.ID)
	switch {
	case failed != nil:
		return store.Record{}, failed
	case rec.State != store.StateAbsent:
		return rec, &store.Error{Kind: store.KindTaken, Err: err}
	}
	return rec, &store.Error{Kind: store.KindStale, Err: errLate}
}

// refused returns the record that made the request fail, and the error. It returns a nil error if the record is the caller's own.
func (s *Store) refused(ctx context.Context, c *store.Change, d *delivery, found item, err error) (store.Record, error) {
	rec, failed := store.Record{}, error(nil)
	if found == nil { // the record is absent, or the service does not return it
		rec, failed = s.Read(ctx, c.ID)
	} else if now, e := s.heard(); e == nil {
		rec, failed = recordOf(found, now)
	}
	if failed != nil {
		return store.Record{}, failed
	}
	if d.uncertain() {
		switch own := len(c.Next.Nonce) > 0 && string(rec.Nonce) == string(c.Next.Nonce); {
		case own && rec.State == c.Next.State && rec.Fence == c.Next.Fence:
			return rec, nil // the client has sent the request again, and the second request has found the record of the first
		case c.Expect.Fence == 0 && rec.State == store.StateDone: // a finished record does not change, so ours was never written
		default:
			return store.Record{}, &store.Error{Kind: store.KindLost, Err: err}
		}
	}
	return rec, &store.Error{Kind: store.KindTaken, Err: fmt.Errorf("another caller has changed the operation: its state is %s and its fence is %d now: %w", rec.State, rec.Fence, err)}
}
