package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// atOnce is how many records one command reads at most: the server serves no other client during a command.
const atOnce = 500

// listed are the fields of a record that a list contains.
var listed = []any{"state", "fingerprint", "nonce", "trace", "name", "since", "fence", "lease", "point", "calling"}

// Unfinished implements [upkeep.Lister]. One command of Unfinished reads up to 500 records, even if
// page.Limit is lower.
func (s *Store) Unfinished(ctx context.Context, page upkeep.Listing) (list []upkeep.Entry, next store.ID, err error) {
	if page.Limit <= 0 {
		return nil, next, nil
	}
	first, end := "-", "+"
	if !page.After.IsZero() {
		first = "(" + page.After.Scope + "\x00" + page.After.Key
	}
	if page.Before != "" {
		end = "(" + page.Before
	}
	read := 0
	err = s.walk(ctx, first, end, func(e upkeep.Entry, _ time.Time) bool {
		if asked(&page, &e.Record) {
			list = append(list, e)
		}
		// The page ends at the record that was read, whether or not it is listed. Otherwise a page without matches would end the listing.
		if read++; read == page.Limit {
			next = e.ID
		}
		return read < page.Limit
	})
	if err != nil {
		return nil, store.ID{}, err
	}
	return list, next, nil
}

// asked reports whether a record belongs on a page.
func asked(page *upkeep.Listing, rec *store.Record) bool {
	if page.Due && rec.State == store.StateRunning && !rec.LeaseExpired {
		return false
	}
	return (page.State == store.StateAbsent || page.State == rec.State) && (page.Name == "" || page.Name == rec.Name)
}

// Backlog implements [upkeep.Backlogger]. Backlog counts no expired operations, because Redis deletes
// expired operations by itself.
func (s *Store) Backlog(ctx context.Context) (b upkeep.Backlog, err error) {
	n := 0
	err = s.walk(ctx, "-", "+", func(e upkeep.Entry, now time.Time) bool {
		b.Add(e.State, e.Name, 1, now.Sub(e.Since))
		n++
		return n < upkeep.MaxBacklog
	})
	return b, err
}

// walk calls visit for the unfinished operations between two names, in order, until visit returns false.
func (s *Store) walk(ctx context.Context, first, end string, visit func(e upkeep.Entry, now time.Time) bool) error {
	// Each command reads some records only, and walk continues behind the last name.
	for {
		c := call{[]string{s.cfg.Prefix + unfinishedKey}, append([]any{first, end, atOnce, s.cfg.Prefix + recordKey}, listed...)}
		answer, _, err := s.run(ctx, listScript, false, c)
		if err != nil {
			return err
		}
		now, _ := strconv.ParseInt(fmt.Sprint(answer[0]), 10, 64)
		for pair := range slices.Chunk(answer[1:], 2) {
			name, _ := pair[0].(string)
			rec, err := recordOf(pairsOf(pair[1]), answer[0])
			if err != nil {
				return err
			}
			scope, key, _ := strings.Cut(name, "\x00")
			if rec.State != store.StateAbsent && !visit(upkeep.Entry{ID: store.ID{Scope: scope, Key: key}, Record: rec}, time.UnixMicro(now)) {
				return nil
			}
			first = "(" + name
		}
		if len(answer) < 2*atOnce {
			return nil
		}
	}
}
