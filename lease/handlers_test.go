package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestCompleterLeavesTheRestAlone: a Completer goes on with the operations whose name it has a handler for. The records of operations
// with other names, and of sagas and gateways, are after hours what they were before: also one that looks like work of package lease
// which has stopped in a call that nothing can decide, and one that has the name of a handler.
func TestCompleterLeavesTheRestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		order := func(ctx context.Context, r *lease.Run) (string, error) {
			if _, err := lease.InTx(ctx, r, s, "a", put(r.Operation().Key, "1")); err != nil {
				return "", err
			}
			return "done", nil
		}
		for _, name := range []string{"order", "refund", ""} {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "acme", Key: "of " + name, Name: name, Request: []byte("r")}, func(ctx context.Context, r *lease.Run) (string, error) {
				_, err := order(ctx, r)
				must(t, err)
				return "", errDead
			})
			wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		}
		left := map[store.ID]store.Record{{Scope: "acme", Key: "of refund"}: {}, {Scope: "acme", Key: "of "}: {}}
		for _, scope := range []string{"saga/order", "gateway/acme", "saga/"} {
			for key, state := range map[string]store.State{"waits": store.StateWaiting, "runs": store.StateRunning, "unknown": store.StateUnknown} {
				id := store.ID{Scope: scope, Key: key}
				_, err := s.Swap(t.Context(), store.Change{ID: id, Lease: time.Second, Next: store.Record{
					State: state, Fence: 1, Nonce: []byte("of the saga"), Name: "order", CallStarted: true, Data: []byte(`{"call":{"phase":"charge"},"steps":["reserve"]}`),
				}})
				must(t, err)
				left[id] = store.Record{}
			}
		}
		<-time.After(time.Minute) // all leases are over
		s.Advance(0)
		for id := range left {
			rec, err := s.Read(t.Context(), id)
			must(t, err)
			left[id] = rec
		}
		var log bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		resumed := map[string]int{}
		must(t, lease.Completer{
			Store: leased, Encrypter: box, Concurrency: 1, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Handlers: lease.Handlers{"order": func(ctx context.Context, op once.Operation) error {
				resumed[op.Scope+" "+op.Key+" "+op.Name]++
				_, err := once.Do(ctx, e, op, order)
				return err
			}},
		}.Run(ctx))
		if len(resumed) != 1 || resumed["acme of order order"] != 1 {
			t.Errorf("resumed: %v", resumed)
		}
		if rec, err := s.Read(t.Context(), store.ID{Scope: "acme", Key: "of order"}); err != nil || rec.State != store.StateDone || rec.Name != "order" {
			t.Errorf("%+v, %v", rec, err)
		}
		for id, before := range left {
			if after, err := s.Read(t.Context(), id); err != nil || !reflect.DeepEqual(before, after) {
				t.Errorf("%v was %+v and is %+v, %v", id, before, after, err)
			}
		}
		if text := log.String(); strings.Count(text, "name=refund") != 1 || strings.Contains(text, "saga") {
			t.Errorf("the log has %s", text)
		}
	})
}

// countedLister counts the listings, and keeps the scopes that they return.
type countedLister struct {
	*memstore.Store

	listings int
	scopes   map[string]bool
}

func (c *countedLister) Unfinished(ctx context.Context, page upkeep.Listing) ([]upkeep.Entry, store.ID, error) {
	c.listings++
	list, next, err := c.Store.Unfinished(ctx, page)
	for _, e := range list {
		c.scopes[e.Scope] = true
	}
	return list, next, err
}

// TestCompleterLooksOnce: a look is one listing, also where operations of owners lie between those of the user. If there are thousands
// of them, it reads a page of them and passes over the others.
func TestCompleterLooksOnce(t *testing.T) {
	for sagas, want := range map[int]int{3: 1, 3000: 2} {
		synctest.Test(t, func(t *testing.T) {
			s := &countedLister{Store: memstore.New(), scopes: map[string]bool{}}
			put := func(scope, key string) {
				_, err := s.Swap(t.Context(), store.Change{ID: store.ID{Scope: scope, Key: key}, Next: store.Record{State: store.StateWaiting, Fence: 1, Name: "order"}})
				must(t, err)
			}
			for _, scope := range []string{"acme", "globex", "zenith"} {
				put(scope, "k")
			}
			for i := range sagas {
				put("saga/order", strconv.Itoa(i))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			must(t, lease.Completer{
				Store: lease.New(s, lease.Config{}), Encrypter: encrypter(t), Every: time.Hour, Log: slog.New(slog.DiscardHandler),
				Handlers: lease.Handlers{"order": func(context.Context, once.Operation) error { return nil }},
			}.Run(ctx))
			if s.listings != want || !s.scopes["acme"] || !s.scopes["globex"] || !s.scopes["zenith"] {
				t.Errorf("%d sagas: %d listings, of %v", sagas, s.listings, s.scopes)
			}
		})
	}
}

// down is a store whose listings fail.
type down struct{ *memstore.Store }

func (down) Unfinished(context.Context, upkeep.Listing) ([]upkeep.Entry, store.ID, error) {
	return nil, store.ID{}, errors.New("connection refused")
}

// TestOutageIsLoggedOnceAMinute: while the database is down, a Completer tries again twice a second and does not flood the log.
func TestOutageIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		must(t, lease.Completer{
			Store: lease.New(down{memstore.New()}, lease.Config{}), Encrypter: encrypter(t), Log: slog.New(slog.NewTextHandler(&log, nil)),
			Handlers: lease.Handlers{"order": func(context.Context, once.Operation) error { return nil }},
		}.Run(ctx))
		if text := log.String(); strings.Count(text, "connection refused") != 2 || !strings.Contains(text, "omitted=") {
			t.Errorf("the log of 100 seconds has not two lines, the second one with the number of the lines omitted:\n%s", text)
		}
	})
}

// TestCompleterOfAnOwner: behind the door of an owner, a Completer sees the operations of that owner and no others.
func TestCompleterOfAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		inside := owner.Enter(t.Context(), owner.Gateway)
		for _, op := range []once.Operation{{Scope: "acme", Key: "k"}, {Scope: "gateway/acme", Key: "k"}} {
			op.Request = []byte("r")
			_, err := once.Do(inside, e, op, func(ctx context.Context, r *lease.Run) (string, error) {
				_, err := lease.InTx(ctx, r, s, "a", put("a", "1"))
				must(t, err)
				return "", errDead
			})
			wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		}
		ctx, cancel := context.WithTimeout(inside, time.Minute)
		defer cancel()
		must(t, lease.Completer{
			Store: leased, Encrypter: box, Log: slog.New(slog.DiscardHandler),
			Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
				_, err := once.Do(ctx, e, op, func(context.Context, *lease.Run) (string, error) { return "done", nil })
				return err
			}},
		}.Run(ctx))
		for scope, want := range map[string]store.State{"acme": store.StateWaiting, "gateway/acme": store.StateDone} {
			if rec, err := s.Read(t.Context(), store.ID{Scope: scope, Key: "k"}); err != nil || rec.State != want {
				t.Errorf("%s: %s, %v, want %s", scope, rec.State, err, want)
			}
		}
	})
}

// TestResolveRefusesOwners: a person decides an operation of a saga with the commands of sagas, which know its steps.
func TestResolveRefusesOwners(t *testing.T) {
	s := memstore.New()
	id := store.ID{Scope: "saga/order", Key: "k"}
	_, err := s.Swap(t.Context(), store.Change{ID: id, Next: store.Record{State: store.StateUnknown, Fence: 1, Nonce: []byte("n"), Data: []byte(`{"steps":["reserve"]}`)}})
	must(t, err)
	before, err := s.Read(t.Context(), id)
	must(t, err)
	p, err := lease.ProgressOf(id, before)
	must(t, err)
	err = lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: p.CallID, Failure: &once.Failure{Code: "no"}})
	if store.KindOf(err) != store.KindMisused || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("%v", err)
	}
	if after, err := s.Read(t.Context(), id); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("%+v, %v", after, err)
	}
}
