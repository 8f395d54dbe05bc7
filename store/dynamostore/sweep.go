package dynamostore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

const (
	// grace is how long an expired record stays. A write that was signed before the expiry may arrive that much later, and only the
	// record refuses it.
	grace = 15 * time.Minute

	// behind is how far the index may lag behind the table.
	behind = time.Minute
)

// Sweep implements [upkeep.Sweeper]. Sweep deletes a record when its retention has been over for 15
// minutes, if the record has not changed since Sweep has read it. Sweep makes one request for each record.
func (s *Store) Sweep(ctx context.Context, req upkeep.Sweep) (swept upkeep.Swept, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return swept, err
	}
	entries, err := s.first(ctx, finite, orderOfTime(req.After), orderOfTime(now.Add(-grace)), req.Limit)
	if err != nil {
		return swept, err
	}
	swept.More, swept.Mark = len(entries) >= req.Limit, req.After
	if len(entries) > 0 {
		// The mark is earlier than the last row, because the index may still lack rows that have expired before.
		if mark := timeOf(entries[len(entries)-1], "until").Add(-behind); mark.After(req.After) {
			swept.Mark = mark
		}
	}
	if req.Archive != nil {
		if entries, err = s.archive(ctx, entries, req); err != nil {
			return upkeep.Swept{}, err
		}
	}
	var rows atomic.Int64
	err = each(len(entries), func(i int) error {
		deleted, err := s.sweep(ctx, entries[i])
		if deleted {
			rows.Add(1)
		}
		return err
	})
	if swept.Rows = int(rows.Load()); err != nil { // other rows may be deleted
		return swept, &store.Error{Kind: store.KindLost, Err: err}
	}
	return swept, nil
}

// archive passes the records of entries to req.Archive, and returns their items.
func (s *Store) archive(ctx context.Context, entries []item, req upkeep.Sweep) (seen []item, err error) {
	found, err := s.items(ctx, entries)
	if err != nil {
		return nil, err
	}
	var rows []upkeep.Expired
	for _, entry := range entries {
		it := found[textOf(entry, "id")]
		if it == nil || numberOf(it, "until") != numberOf(entry, "until") { // the record has changed since the index was written
			continue
		}
		id, err := operationOf(it)
		if err != nil {
			return nil, err
		}
		rec, err := recordOf(it, time.Time{}) // with time zero nothing is expired, so the whole record is returned
		if err != nil {
			return nil, err
		}
		rows, seen = append(rows, upkeep.Expired{ID: id, Record: rec, At: timeOf(it, "until")}), append(seen, it)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if err := req.Archive(ctx, rows); err != nil {
		return nil, &store.Error{Kind: store.KindOther, Err: err}
	}
	return seen, nil
}

// sweep deletes an item if it has not changed: its until must be the same and, if the record was read, its nonce as well.
func (s *Store) sweep(ctx context.Context, it item) (deleted bool, err error) {
	e := newExpression()
	condition := e.compare("until", "=", it["until"])
	if nonce, read := it["nonce"]; read {
		condition += " AND " + e.compare("nonce", "=", nonce)
	}
	_, err = s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: item{"id": it["id"]}, ConditionExpression: &condition,
		ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
	})
	var changed *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &changed), kindOf(err) == store.KindRetry: // another sweeper has deleted it, or the operation is executed again
		return false, nil
	}
	return false, err
}
