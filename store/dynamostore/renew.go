package dynamostore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/store"
)

// atOnce is how many requests one call sends at the same time.
const atOnce = 16

// each calls fn for 0 to n-1, several at a time, and returns an error of one call. After an error it begins no more calls.
func each(n int, fn func(i int) error) (first error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	next := 0
	for range min(n, atOnce) {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := first != nil || i >= n
				mu.Unlock()
				if stop {
					return
				}
				if err := fn(i); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return first
}

// Renew implements [store.Renewer]. Renew writes each lease in a separate request: if you have many leases,
// set a longer TTL to need fewer requests.
func (s *Store) Renew(ctx context.Context, holds []store.Hold, lease time.Duration) ([]store.Hold, error) {
	if err := ctx.Err(); err != nil {
		return nil, failedRead(err)
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	held := make([]bool, len(holds))
	err = each(len(holds), func(i int) (err error) {
		held[i], err = s.renew(ctx, holds[i], now, lease)
		return err
	})
	if err != nil {
		return nil, err
	}
	renewed := slices.Clone(holds)
	i := -1
	return slices.DeleteFunc(renewed, func(store.Hold) bool { i++; return !held[i] }), nil
}

// renew sets the lease of one operation. held is false if h is no longer valid.
func (s *Store) renew(ctx context.Context, h store.Hold, now time.Time, lease time.Duration) (held bool, err error) {
	id, err := idOf(h.ID)
	// A hold without a nonce is never valid: every record has a nonce.
	if err != nil || len(h.Nonce) == 0 {
		return false, err
	}
	e := newExpression()
	update := "REMOVE " + e.name("lease")
	if lease > 0 {
		update = "SET " + e.compare("lease", "=", micros(now.Add(lease)))
	}
	in := &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: item{"id": text(id)}, ConditionExpression: e.holds(h), UpdateExpression: &update,
		ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
	}
	for {
		_, err = s.client.UpdateItem(ctx, in)
		var refused *types.ConditionalCheckFailedException
		switch {
		case err == nil:
			return true, nil
		// Another owner has the operation, or it has ended. That is no error of the request.
		case errors.As(err, &refused):
			return false, nil
		case kindOf(err) != store.KindRetry || !sleep.For(ctx, 10*time.Millisecond): // a transaction that checks this hold conflicts with the update
			return false, failedRead(err)
		}
	}
}
