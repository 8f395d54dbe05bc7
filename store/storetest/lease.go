package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// testLeases proves the abilities of a store that concern leases, besides Swap. The test has its own store, because it moves
// the clock.
func testLeases(t *testing.T, o *operations) {
	t.Run("Backlog", func(t *testing.T) { // first, because it counts all operations of the store
		if _, ok := store.As[upkeep.Backlogger](o.s); !ok {
			t.Skip("the store does not implement upkeep.Backlogger")
		}
		testBacklog(t, o)
	})
	t.Run("Renew", func(t *testing.T) {
		if _, ok := store.As[store.Renewer](o.s); !ok {
			t.Skip("the store does not implement store.Renewer")
		}
		for _, c := range []struct {
			name string
			test func(*testing.T, *operations)
		}{
			{"Extends", renewExtends}, {"LeavesTheRest", renewLeavesTheRest}, {"NotHeld", renewNotHeld}, {"Revives", renewRevives},
			{"Many", renewMany}, {"Overlapping", renewOverlapping}, {"Cancelled", renewCancelled},
		} {
			t.Run(c.name, func(t *testing.T) { c.test(t, o) })
		}
	})
	t.Run("Take", func(t *testing.T) {
		if _, ok := store.As[upkeep.Taker](o.s); !ok {
			t.Skip("the store does not implement upkeep.Taker")
		}
		testTake(t, o)
	})
	t.Run("Unfinished", func(t *testing.T) {
		if _, ok := store.As[upkeep.Lister](o.s); !ok {
			t.Skip("the store does not implement upkeep.Lister")
		}
		testUnfinished(t, o)
	})
}

// lease stores a running operation with a lease of one minute.
func (o *operations) lease(t *testing.T) store.Hold {
	t.Helper()
	id := newID()
	o.swap(t, store.Change{ID: id, Next: stored(store.StateRunning), Lease: time.Minute})
	return store.Hold{ID: id, Fence: fence, Nonce: storedNonce}
}

// renew renews holds by a minute. It wants exactly the first of them to be renewed, as many as want says.
func (o *operations) renew(t *testing.T, want int, holds ...store.Hold) {
	t.Helper()
	r, _ := store.As[store.Renewer](o.s)
	got, err := r.Renew(bounded(t), holds, time.Minute)
	if err != nil {
		t.Error("Renew:", err)
	}
	same := func(a, b store.Hold) int {
		return strings.Compare(a.ID.Scope+"/"+a.ID.Key, b.ID.Scope+"/"+b.ID.Key)
	}
	wanted := slices.SortedFunc(slices.Values(holds[:want]), same)
	got = slices.SortedFunc(slices.Values(got), same)
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("Renew has renewed %d of %d leases: %v, want the first %d", len(got), len(holds), got, want)
	}
}

func (o *operations) wantLapsed(t *testing.T, id store.ID, want bool) {
	t.Helper()
	for _, l := range o.looks {
		if rec := l.see(t, id); rec.State != store.StateRunning || rec.LeaseExpired != want {
			t.Errorf("%s: the record is %+v, want a running record with LeaseExpired %t", l.name, rec, want)
		}
	}
}

func renewExtends(t *testing.T, o *operations) {
	h, other := o.lease(t), o.lease(t)
	for range 3 {
		o.advance(t, 40*time.Second)
		o.renew(t, 1, h)
		o.wantLapsed(t, h.ID, false)
	}
	o.wantLapsed(t, other.ID, true)
	o.advance(t, 61*time.Second)
	o.wantLapsed(t, h.ID, true)
}

func renewLeavesTheRest(t *testing.T, o *operations) {
	h := o.lease(t)
	want := calling(stored(store.StateRunning))
	want.RecoveryPoint = "charged"
	o.swap(t, store.Change{ID: h.ID, Expect: store.Expect{Fence: fence}, Next: want, Lease: time.Minute})
	since := o.read(t, h.ID).Since
	o.renew(t, 1, h)
	o.same(t, "renewed", h.ID, want)
	if got := o.read(t, h.ID).Since; !got.Equal(since) {
		t.Errorf("Renew has changed Since from %v to %v", since, got)
	}
	o.swap(t, change(h.ID, store.Expect{Fence: fence, Nonce: storedNonce}, store.Record{})) // by the same claim
}

func renewNotHeld(t *testing.T, o *operations) {
	held, fences, nonces, none := o.lease(t), o.lease(t), o.lease(t), o.lease(t)
	fences.Fence++
	nonces.Nonce, none.Nonce = otherNonce, nil
	list := []store.Hold{held, fences, nonces, none, {ID: newID(), Fence: fence, Nonce: storedNonce}}
	become := func(next store.Record) store.Hold {
		h := o.lease(t)
		o.swap(t, store.Change{ID: h.ID, Expect: store.Expect{Fence: fence}, Next: next, Retain: time.Hour})
		list = append(list, h)
		return h
	}
	finished, unknown, released := become(stored(store.StateDone)), become(stored(store.StateUnknown)), become(store.Record{})
	waiting := become(stored(store.StateWaiting))
	again := become(store.Record{})
	next := stored(store.StateRunning)
	next.Nonce = nextNonce
	o.swap(t, store.Change{ID: again.ID, Next: next, Lease: time.Minute})
	o.renew(t, 1, list...)
	o.advance(t, 61*time.Second)
	for _, h := range []store.Hold{fences, nonces, none, again} {
		o.wantLapsed(t, h.ID, true)
	}
	o.renew(t, 1, list...)
	o.wantLapsed(t, held.ID, false)
	o.same(t, "done", finished.ID, stored(store.StateDone))
	o.same(t, "unknown", unknown.ID, stored(store.StateUnknown))
	o.same(t, "waiting", waiting.ID, stored(store.StateWaiting))
	o.wantState(t, released.ID, store.StateAbsent)
	o.advance(t, 2*time.Hour) // a finished operation expires
	o.renew(t, 0, finished)
	o.wantState(t, finished.ID, store.StateAbsent)
}

func renewRevives(t *testing.T, o *operations) {
	over := func(h store.Hold) store.Change {
		return store.Change{
			ID: h.ID, Expect: store.Expect{Fence: fence, LeaseExpired: true}, Lease: time.Minute,
			Next: store.Record{State: store.StateRunning, Fence: fence + 1, Nonce: nextNonce},
		}
	}
	revived, lost := o.lease(t), o.lease(t)
	o.advance(t, 2*time.Minute)
	o.swap(t, over(lost))
	o.renew(t, 1, revived, lost)
	o.wantLapsed(t, revived.ID, false)
	_, err := o.peer.Swap(bounded(t), over(revived))
	wantKind(t, err, store.KindTaken)
	o.same(t, "taken over", lost.ID, over(lost).Next)
	o.renew(t, 1, store.Hold{ID: lost.ID, Fence: fence + 1, Nonce: nextNonce}, lost)
}

func renewMany(t *testing.T, o *operations) {
	o.renew(t, 0)
	var held, list []store.Hold
	for i := range 250 {
		h := o.lease(t)
		held = append(held, h)
		if i%5 == 0 {
			h.ID = newID()
			list = append(list, h)
		}
	}
	slices.Reverse(held)
	o.advance(t, 2*time.Minute)
	o.renew(t, len(held), append(slices.Clone(held), list...)...)
	for _, h := range held {
		if o.read(t, h.ID).LeaseExpired {
			t.Fatalf("%v was not renewed", h)
		}
	}
}

// renewOverlapping lets several holders renew the same operations in opposite orders. No call may wait for ever, and no call
// may fail.
func renewOverlapping(t *testing.T, o *operations) {
	var list []store.Hold
	for range 60 {
		list = append(list, o.lease(t))
	}
	backwards := slices.Clone(list)
	slices.Reverse(backwards)
	ctx := bounded(t)
	var group sync.WaitGroup
	for i, s := range []store.Operations{o.s, o.peer, o.s, o.peer} {
		r, _ := store.As[store.Renewer](s)
		holds := list[:45]
		if i%2 == 1 {
			holds = backwards[:45]
		}
		group.Go(func() {
			for range 5 {
				if got, err := r.Renew(ctx, holds, time.Minute); err != nil || len(got) != len(holds) {
					t.Errorf("Renew has renewed %d of %d leases: %v", len(got), len(holds), err)
				}
			}
		})
	}
	group.Wait()
}

func renewCancelled(t *testing.T, o *operations) {
	h := o.lease(t)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	r, _ := store.As[store.Renewer](o.s)
	if _, err := r.Renew(dead, []store.Hold{h}, time.Minute); store.KindOf(err) != store.KindUnavailable {
		t.Errorf("a call with a context that had ended has returned %v, want %s", err, store.KindUnavailable)
	}
}

// testRenewedMeanwhile lets a holder renew its lease while another owner takes the operation over in an open transaction. One
// of the two must fail.
func testRenewedMeanwhile[TX any](t *testing.T, u *suite[TX]) {
	r, renews := store.As[store.Renewer](u.peer)
	if !renews || !u.joins {
		return
	}
	h := u.lease(t)
	u.advance(t, 2*time.Minute)
	takeover := change(h.ID, store.Expect{Fence: fence, LeaseExpired: true}, store.Record{State: store.StateRunning, Fence: fence + 1, Nonce: nextNonce})
	own := u.own(t)
	if err := u.joined(t, own, store.ID{}).Commit(bounded(t), takeover); err != nil {
		t.Error("the takeover has failed:", err)
	}
	type answer struct {
		renewed []store.Hold
		err     error
	}
	told, ctx := make(chan answer, 1), bounded(t)
	go func() {
		renewed, err := r.Renew(ctx, []store.Hold{h}, time.Minute)
		told <- answer{renewed, err}
	}()
	var a answer
	waits := false
	// The renewal either waits for the open transaction, or comes before it.
	select {
	case a = <-told:
	case <-time.After(100 * time.Millisecond):
		waits = true
	}
	applied := own.end(true) == nil
	if waits {
		a = <-told
	}
	if a.err != nil || applied == (len(a.renewed) == 1) {
		t.Errorf("the takeover was applied: %t; Renew has renewed %v, error %v", applied, a.renewed, a.err)
	}
	rec := u.read(t, h.ID)
	if want := map[bool]int64{true: fence + 1, false: fence}[applied]; rec.Fence != want || rec.LeaseExpired {
		t.Errorf("the takeover was applied: %t, but the record is %+v", applied, rec)
	}
}

// testUnfinished proves that running, waiting and unknown operations are listed, each exactly once, and no others.
func testUnfinished(t *testing.T, o *operations) {
	tag := "unfinished " + once.NewKey() + " " // the scopes of this case begin with it
	want := map[store.ID]store.Record{}
	put := func(id store.ID, rec store.Record, lease time.Duration) {
		t.Helper()
		rec.Data, rec.Request = []byte("data"), []byte("request")
		o.swap(t, store.Change{ID: id, Next: rec, Lease: lease, Retain: time.Hour})
		if rec.State != store.StateDone {
			rec.Data, rec.Request = nil, nil
			want[id] = rec
		}
	}
	// Their order by bytes differs from every language's, and from the order of scope and key joined together.
	for i, key := range []string{"b", "a", "B", "A", "a b", "ab", "é", "z", "Z", "_", "~", "0", "10", "9", "ﬀ", "\U0001f600", "k ", "k"} {
		running, unknown := calling(stored(store.StateRunning)), stored(store.StateUnknown)
		running.Name, unknown.Name = listedNames[i%len(listedNames)], listedNames[i/2%len(listedNames)]
		put(store.ID{Scope: tag, Key: key}, running, time.Hour)
		put(store.ID{Scope: tag + key, Key: "a"}, unknown, 0)
	}
	lapsed, never, expired := store.ID{Scope: tag, Key: "lapsed"}, store.ID{Scope: tag, Key: "never over"}, store.ID{Scope: tag, Key: "expired"}
	put(lapsed, stored(store.StateRunning), time.Minute)
	put(never, stored(store.StateRunning), 0)
	put(store.ID{Scope: tag, Key: "waiting"}, calling(stored(store.StateWaiting)), 0)
	put(expired, stored(store.StateDone), 0)
	o.advance(t, 2*time.Hour)
	held := store.ID{Scope: tag, Key: "held"}
	put(held, stored(store.StateRunning), time.Hour)
	for _, id := range []store.ID{{Scope: tag, Key: "done"}, {Scope: tag + "z", Key: "done"}} {
		put(id, stored(store.StateDone), 0)
	}
	o.swap(t, store.Change{ID: store.ID{Scope: tag, Key: "done for ever"}, Next: stored(store.StateDone)})
	for _, then := range []store.State{store.StateAbsent, store.StateDone} { // operations that were running
		id := store.ID{Scope: tag, Key: "then " + then.String()}
		o.swap(t, store.Change{ID: id, Next: stored(store.StateRunning), Lease: time.Hour})
		next := store.Record{}
		if then == store.StateDone {
			next = stored(store.StateDone)
		}
		o.swap(t, store.Change{ID: id, Expect: store.Expect{Fence: fence}, Next: next, Retain: time.Hour})
	}
	if o.claim != nil {
		defer o.claim(t, store.ID{Scope: tag, Key: "claimed"})()
	}

	wantListed(t, o, tag, want, held, never)
	wantFiltered(t, o, tag, want)
	l, _ := store.As[upkeep.Lister](o.peer)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := l.Unfinished(dead, upkeep.Listing{Limit: 1}); store.KindOf(err) != store.KindUnavailable {
		t.Errorf("a call with a context that had ended has returned %v, want %s", err, store.KindUnavailable)
	}
}

// wantListed checks that all of want are listed. A list of due operations must leave out those in held.
func wantListed(t *testing.T, o *operations, tag string, want map[store.ID]store.Record, held ...store.ID) {
	t.Helper()
	l, _ := store.As[upkeep.Lister](o.peer)
	for _, limit := range []int{1, 3, 500, 1000} {
		due := limit == 3 || limit == 500
		var got []store.ID
		for after, more := (store.ID{Scope: tag}), true; more; {
			page, next, err := l.Unfinished(bounded(t), upkeep.Listing{After: after, Limit: limit, Due: due})
			if err != nil {
				t.Fatal("Unfinished:", err)
			}
			if len(page) > limit {
				t.Errorf("a page with the limit %[2]d has %[1]d operations", len(page), limit)
			}
			after, more = next, strings.HasPrefix(next.Scope, tag) // other scopes belong to other cases
			for _, e := range page {
				if !strings.HasPrefix(e.Scope, tag) {
					break
				}
				got = append(got, e.ID)
				if d := diff(want[e.ID], e.Record); d != "" {
					t.Errorf("limit %d: %q: %s", limit, e.ID, d)
				}
				if over := e.State == store.StateRunning && !slices.Contains(held, e.ID); e.LeaseExpired != over || e.Idle() != (over || e.State == store.StateWaiting) || e.Since.IsZero() {
					t.Errorf("limit %d: %q: lease over %t, since %v", limit, e.ID, e.LeaseExpired, e.Since)
				}
			}
		}
		wanted := []store.ID{}
		for id := range want {
			if !due || !slices.Contains(held, id) {
				wanted = append(wanted, id)
			}
		}
		slices.SortFunc(wanted, func(a, b store.ID) int {
			if a.Scope != b.Scope {
				return strings.Compare(a.Scope, b.Scope)
			}
			return strings.Compare(a.Key, b.Key)
		})
		if !slices.Equal(got, wanted) {
			t.Errorf("limit %d: listed %q, want %q", limit, got, wanted)
		}
	}
}

var listedNames = []string{"", "POST /refunds", "POST /refunds ", "post /refunds"}

// wantFiltered checks the lists for each name, state and prefix of scopes, in pages of one and of three.
func wantFiltered(t *testing.T, o *operations, tag string, want map[store.ID]store.Record) {
	t.Helper()
	var filters []upkeep.Listing
	for _, name := range listedNames {
		filters = append(filters, upkeep.Listing{Name: name})
	}
	for _, state := range []store.State{store.StateRunning, store.StateWaiting, store.StateUnknown} {
		filters = append(filters, upkeep.Listing{State: state}, upkeep.Listing{State: state, Name: listedNames[1]})
	}
	for _, filter := range filters {
		for _, prefix := range []string{tag, tag + "a", tag + "\U0001f600", tag + "none"} {
			for _, limit := range []int{1, 3} {
				filter.Limit = limit
				wantPages(t, o, filter.WithPrefix(prefix), prefix, want)
			}
		}
	}
}

// wantPages checks that page and the pages after it list the operations of want that match. No page may read more than its limit: a
// page that lists nothing has read as much as a full one.
func wantPages(t *testing.T, o *operations, page upkeep.Listing, prefix string, want map[store.ID]store.Record) {
	t.Helper()
	l, _ := store.As[upkeep.Lister](o.peer)
	is := func(id store.ID, rec store.Record) bool {
		return strings.HasPrefix(id.Scope, prefix) && (page.Name == "" || rec.Name == page.Name) && (page.State == store.StateAbsent || rec.State == page.State)
	}
	found, wanted, pages, all := 0, 0, 0, 0
	for {
		pages++
		list, next, err := l.Unfinished(bounded(t), page)
		if err != nil {
			t.Fatal("Unfinished:", err)
		}
		for _, e := range list {
			if rec, known := want[e.ID]; !known || !is(e.ID, rec) {
				t.Errorf("%+v: %q of name %q in state %v is listed", page, e.ID, e.Name, e.State)
			}
			found++
		}
		if page.After = next; next.IsZero() {
			break
		}
	}
	for id, rec := range want {
		if strings.HasPrefix(id.Scope, prefix) {
			all++
		}
		if is(id, rec) {
			wanted++
		}
	}
	if found != wanted {
		t.Errorf("listing %+v: %d operations are listed, want %d", page, found, wanted)
	}
	if page.State == store.StateAbsent && pages*page.Limit < all { // a store may have an index of states
		t.Errorf("listing %+v: the list has %d pages for %d operations", page, pages, all)
	}
}

// testBacklog proves that running, waiting, unknown and expired operations are counted with their ages, and no others. The store must
// be empty at first.
func testBacklog(t *testing.T, o *operations) {
	b, _ := store.As[upkeep.Backlogger](o.peer)
	want := func(what string, running, waiting, unknown, expired upkeep.Count) {
		t.Helper()
		got, err := b.Backlog(bounded(t))
		if err != nil {
			t.Fatal("Backlog:", err)
		}
		for _, c := range []struct {
			name      string
			got, want upkeep.Count
		}{{"running", got.Running, running}, {"waiting", got.Waiting, waiting}, {"unknown", got.Unknown, unknown}, {"expired", got.Expired, expired}} {
			late := c.got.Oldest - c.want.Oldest // how long this test has taken so far
			if c.got.Number != c.want.Number || late < -o.clockError || late > 30*time.Minute || c.want.Number == 0 && late != 0 {
				t.Errorf("%s: %d %s, the oldest for %v; want %d, for %v", what, c.got.Number, c.name, c.got.Oldest, c.want.Number, c.want.Oldest)
			}
		}
	}
	put := func(state store.State, lease, retain time.Duration) store.ID {
		t.Helper()
		id := newID()
		o.swap(t, store.Change{ID: id, Next: stored(state), Lease: lease, Retain: retain})
		return id
	}
	want("empty", upkeep.Count{}, upkeep.Count{}, upkeep.Count{}, upkeep.Count{})
	lapsed := put(store.StateRunning, time.Minute, 0)
	put(store.StateUnknown, 0, 0)
	put(store.StateWaiting, 0, 0)
	o.advance(t, time.Hour)
	put(store.StateRunning, time.Hour, 0)
	put(store.StateRunning, 0, 0)
	put(store.StateUnknown, 0, 0)
	put(store.StateDone, 0, 0)
	put(store.StateDone, 0, time.Hour)
	put(store.StateDone, 0, 2*time.Hour)
	want("kept", upkeep.Count{Number: 3, Oldest: time.Hour}, upkeep.Count{Number: 1, Oldest: time.Hour}, upkeep.Count{Number: 2, Oldest: time.Hour}, upkeep.Count{})
	o.advance(t, 4*time.Hour)
	put(store.StateDone, 0, time.Hour)
	o.swap(t, store.Change{ID: lapsed, Expect: store.Expect{Fence: fence}, Next: stored(store.StateDone)})
	nameless, other := stored(store.StateUnknown), stored(store.StateWaiting)
	nameless.Name, other.Name = "", "other"
	o.swap(t, store.Change{ID: newID(), Next: nameless})
	o.swap(t, store.Change{ID: newID(), Next: other})
	if o.claim != nil {
		defer o.claim(t, newID())()
	}
	got, err := b.Backlog(bounded(t))
	if names := map[string]upkeep.Named{"stored name": {Running: 2, Waiting: 1, Unknown: 2}, "": {Unknown: 1}, "other": {Waiting: 1}}; err != nil || !maps.Equal(got.Names, names) {
		t.Errorf("the numbers by name are %+v, error %v, want %+v", got.Names, err, names)
	}
	over := upkeep.Count{Number: 2, Oldest: 3 * time.Hour}
	if o.expires {
		over = upkeep.Count{}
	}
	want("expired", upkeep.Count{Number: 2, Oldest: 4 * time.Hour}, upkeep.Count{Number: 2, Oldest: 5 * time.Hour}, upkeep.Count{Number: 3, Oldest: 5 * time.Hour}, over)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Backlog(dead); store.KindOf(err) != store.KindUnavailable {
		t.Errorf("a call with a context that had ended has returned %v, want %s", err, store.KindUnavailable)
	}
}
