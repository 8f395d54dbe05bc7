package dynamostore

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// part calls visit for the entries of one part of the index, in order. It begins behind after, ends at before if that is set, and
// visits at most limit entries. The index lags behind the table by a moment.
func (s *Store) part(ctx context.Context, name string, after, before []byte, limit int, visit func(item)) error {
	e := newExpression()
	key := e.compare("part", "=", text(name)) + " AND "
	low := &types.AttributeValueMemberB{Value: append(slices.Clone(after), 0)} // the smallest value behind after
	if key += e.compare("due", ">=", low); before != nil {
		key = e.compare("part", "=", text(name)) + " AND " + e.name("due") + " BETWEEN " + e.value(low) + " AND " + e.value(&types.AttributeValueMemberB{Value: before})
	}
	in := &dynamodb.QueryInput{
		TableName: &s.table, IndexName: &[]string{index}[0], KeyConditionExpression: &key,
		ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
	}
	for limit > 0 {
		most := int32(min(limit, 1000))
		in.Limit = &most
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return failedRead(err)
		}
		for _, it := range out.Items {
			visit(it)
		}
		limit -= len(out.Items)
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return nil
		}
	}
	return nil
}

// first returns the first entries of a kind, in order, from all parts of the index.
func (s *Store) first(ctx context.Context, kind string, after, before []byte, limit int) ([]item, error) {
	var found [parts][]item
	err := each(parts, func(i int) error {
		// Each part may hold all of the first entries, so each is read up to the limit.
		return s.part(ctx, kind+strconv.Itoa(i), after, before, limit, func(it item) { found[i] = append(found[i], it) })
	})
	all := slices.Concat(found[:]...)
	slices.SortFunc(all, func(a, b item) int { return bytes.Compare(bytesOf(a, "due"), bytesOf(b, "due")) })
	return all[:min(len(all), limit)], err
}

// items reads the items of the entries from the table, by id. Items that no longer exist are missing.
func (s *Store) items(ctx context.Context, entries []item, attributes ...string) (map[string]item, error) {
	found := map[string]item{}
	// The service takes at most 100 keys in one request.
	for some := range slices.Chunk(entries, 100) {
		e, consistent := newExpression(), true
		ask := types.KeysAndAttributes{ConsistentRead: &consistent}
		for _, it := range some {
			ask.Keys = append(ask.Keys, item{"id": it["id"]})
		}
		if len(attributes) > 0 {
			names := []string{e.name("id")}
			for _, a := range attributes {
				names = append(names, e.name(a))
			}
			list := strings.Join(names, ", ")
			ask.ProjectionExpression, ask.ExpressionAttributeNames = &list, e.names
		}
		for todo := map[string]types.KeysAndAttributes{s.table: ask}; len(todo) > 0; {
			out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: todo})
			if err != nil {
				return nil, failedRead(err)
			}
			for _, it := range out.Responses[s.table] {
				found[textOf(it, "id")] = it
			}
			// The service may answer for some of the keys only; the rest is asked for again after a pause.
			if todo = out.UnprocessedKeys; len(todo) > 0 && !sleep.For(ctx, 20*time.Millisecond) {
				return nil, failedRead(ctx.Err())
			}
		}
	}
	return found, nil
}

// Unfinished implements [upkeep.Lister]. Unfinished finds records in an index, which lags a moment behind the
// table, so a recent change may be missing. The records that Unfinished returns are read from the table.
// Unfinished reads up to page.Limit entries of each partition of the index, and returns up to page.Limit
// operations.
func (s *Store) Unfinished(ctx context.Context, page upkeep.Listing) (list []upkeep.Entry, next store.ID, err error) {
	var before []byte
	if page.Before != "" {
		before = []byte(page.Before)
	}
	if page.Limit <= 0 {
		return nil, next, nil
	}
	entries, err := s.first(ctx, unfinished, orderOf(page.After), before, page.Limit)
	if err != nil {
		return nil, next, err
	}
	found, err := s.items(ctx, entries, "state", "fingerprint", "nonce", "trace", "name", "since", "fence", "lease", "point", "calling")
	if err != nil {
		return nil, next, err
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, next, err
	}
	for i, entry := range entries {
		id, err := operationOf(entry)
		if err != nil {
			return nil, next, err
		}
		rec, err := recordOf(found[textOf(entry, "id")], now)
		if err != nil {
			return nil, next, err
		}
		// The page ends at the index entry, whether or not the record is listed. Otherwise a page without matches would end the listing.
		if i == page.Limit-1 {
			next = id
		}
		if listed(&page, &rec) {
			list = append(list, upkeep.Entry{ID: id, Record: rec})
		}
	}
	return list, next, nil
}

// listed reports whether a record belongs on the page.
func listed(page *upkeep.Listing, rec *store.Record) bool {
	switch {
	case rec.State == store.StateAbsent || rec.State == store.StateDone: // the operation has ended since the index was written
		return false
	case page.Due && rec.State == store.StateRunning && !rec.LeaseExpired:
		return false
	}
	return (page.State == store.StateAbsent || page.State == rec.State) && (page.Name == "" || page.Name == rec.Name)
}

// Backlog implements [upkeep.Backlogger]. Backlog reads only the index of the table.
func (s *Store) Backlog(ctx context.Context) (b upkeep.Backlog, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return b, err
	}
	for i := range parts {
		count := func(it item) {
			state, since := store.State(numberOf(it, "state")), timeOf(it, "since")
			// An expired operation counts from the end of its retention.
			if state == store.StateDone {
				since = timeOf(it, "until")
			}
			b.Add(state, textOf(it, "name"), 1, now.Sub(since))
		}
		if err := s.part(ctx, unfinished+strconv.Itoa(i), nil, nil, upkeep.MaxBacklog, count); err != nil {
			return b, err
		}
		if err := s.part(ctx, finite+strconv.Itoa(i), nil, orderOfTime(now), upkeep.MaxBacklog-b.Expired.Number, count); err != nil {
			return b, err
		}
	}
	return b, nil
}
