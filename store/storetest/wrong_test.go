package storetest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
	"github.com/oncelib/once/store/upkeep"
)

// operations is a store without transactions, which may be wrong in one way.
type operations struct {
	*memstore.Store
	wrong wrong
}

// wrong is what is wrong with a store.
type wrong struct {
	swap    func(c *store.Change, now store.Record)
	read    func(rec *store.Record)
	renew   func(h *store.Hold, now store.Record)
	list    func(list []upkeep.Entry) []upkeep.Entry
	backlog func(*upkeep.Backlog)
	held    bool // is listed as due
	fills   bool // reads until there is something to list
	stopped bool // its clock

	maxResult, most int // that the harness and the store know; 0: none

	caught string // by this case; "": nothing is wrong
}

func (o operations) Read(ctx context.Context, id store.ID) (store.Record, error) {
	rec, err := o.Store.Read(ctx, id)
	if o.wrong.read != nil {
		o.wrong.read(&rec)
	}
	return rec, err
}

func (o operations) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if len(c.Writes) > 0 {
		return store.Record{}, &store.Error{Kind: store.KindMisused, Err: os.ErrInvalid}
	}
	if n := len(c.Next.Result.Body); o.wrong.most > 0 && n > o.wrong.most {
		return store.Record{}, &store.Error{Kind: store.KindOther, Err: os.ErrInvalid}
	}
	if o.wrong.swap != nil {
		now, _ := o.Store.Read(context.Background(), c.ID)
		o.wrong.swap(&c, now)
	}
	return o.Store.Swap(ctx, c)
}

func (o operations) Renew(ctx context.Context, holds []store.Hold, lease time.Duration) ([]store.Hold, error) {
	asked := slices.Clone(holds)
	for i, h := range asked {
		if now, _ := o.Store.Read(context.Background(), h.ID); o.wrong.renew != nil {
			o.wrong.renew(&asked[i], now)
		}
	}
	return o.Store.Renew(ctx, asked, lease)
}

func (o operations) Unfinished(ctx context.Context, page upkeep.Listing) (list []upkeep.Entry, next store.ID, err error) {
	page.Due = page.Due && !o.wrong.held
	for more := true; more; more = o.wrong.fills && err == nil && len(list) == 0 && !next.IsZero() {
		if list, next, err = o.Store.Unfinished(ctx, page); o.wrong.list != nil {
			list = o.wrong.list(list)
		}
		page.After = next
	}
	return list, next, err
}

func (o operations) Backlog(ctx context.Context) (upkeep.Backlog, error) {
	b, err := o.Store.Backlog(ctx)
	if o.wrong.backlog != nil {
		o.wrong.backlog(&b)
	}
	return b, err
}

// wrongs are what can be wrong with a store, and by which case of the suite it is caught.
var wrongs = map[string]wrong{
	"nothing":                 {},
	"nothing, and a bound":    {maxResult: 300_000, most: 400_000},
	"takes what is too much":  {caught: "Record/TooLarge", maxResult: 300_000},
	"takes less than it says": {caught: "Record/Body", maxResult: 300_000, most: 200_000},
	"last write wins": {caught: "Swap/OneWins", swap: func(c *store.Change, now store.Record) {
		if c.Expect = (store.Expect{}); now.State != store.StateAbsent {
			c.Expect.Fence = now.Fence
		}
	}},
	"ignores nonces":   {caught: "Swap/Reclaimed", swap: func(c *store.Change, _ store.Record) { c.Expect.Nonce = nil }},
	"ignores fences":   {caught: "Clock/TruthTable", swap: func(c *store.Change, now store.Record) { c.Expect.Fence = min(c.Expect.Fence, now.Fence) }},
	"clock of its own": {caught: "Clock/TruthTable", stopped: true},
	"takes over early": {caught: "Clock/TruthTable", swap: func(c *store.Change, _ store.Record) { c.Expect.LeaseExpired = false }},
	"never too late":   {caught: "Swap/StaleAfter", swap: func(c *store.Change, _ store.Record) { c.StaleAfter = time.Time{} }},
	"keeps nothing":    {caught: "Clock/TruthTable", swap: func(c *store.Change, _ store.Record) { c.KeepRequest = false }},
	"forgets holds":    {caught: "Clock/Held", swap: func(c *store.Change, _ store.Record) { c.Held = nil }},
	"never expires":    {caught: "Clock/Retain", swap: func(c *store.Change, _ store.Record) { c.Retain = 0 }},
	"folds keys":       {caught: "Record/Keys", swap: func(c *store.Change, _ store.Record) { c.ID.Key = strings.ToLower(c.ID.Key) }},
	"text for bytes":   {caught: "Record/Body", swap: func(c *store.Change, _ store.Record) { c.Next.Result.Body = bytes.ToValidUTF8(c.Next.Result.Body, nil) }},
	"no name":          {caught: "Record/RoundTrip", swap: func(c *store.Change, _ store.Record) { c.Next.Name = "" }},
	"no trace":         {caught: "Record/RoundTrip", swap: func(c *store.Change, _ store.Record) { c.Next.Trace = "" }},
	"expired nonce lost": {caught: "Clock/Retain", read: func(rec *store.Record) {
		if rec.State == store.StateAbsent {
			rec.Nonce = nil
		}
	}},
	"renews by fence":      {caught: "Lease/Renew/NotHeld", renew: func(h *store.Hold, now store.Record) { h.Nonce = now.Nonce }},
	"renews what was lost": {caught: "Lease/Renew/NotHeld", renew: func(h *store.Hold, now store.Record) { h.Fence = now.Fence }},
	"lists by language": {caught: "Lease/Unfinished", list: func(list []upkeep.Entry) []upkeep.Entry {
		slices.SortStableFunc(list, func(a, b upkeep.Entry) int { return strings.Compare(strings.ToLower(a.Key), strings.ToLower(b.Key)) })
		return list
	}},
	"lists what is held":  {caught: "Lease/Unfinished", held: true},
	"reads past a page":   {caught: "Lease/Unfinished", fills: true},
	"counts no age":       {caught: "Lease/Backlog", backlog: func(b *upkeep.Backlog) { b.Unknown.Oldest = 0 }},
	"counts no names":     {caught: "Lease/Backlog", backlog: func(b *upkeep.Backlog) { b.Names = nil }},
	"counts what is kept": {caught: "Lease/Backlog", backlog: func(b *upkeep.Backlog) { b.Expired.Number++ }},
	"lists what runs": {caught: "Lease/Unfinished", list: func(list []upkeep.Entry) []upkeep.Entry {
		return slices.DeleteFunc(list, func(e upkeep.Entry) bool { return e.State != store.StateRunning })
	}},
}

// TestWrongStore runs the suite on a store that is wrong, as a process of TestSuiteCatchesWrongStores.
func TestWrongStore(t *testing.T) {
	w, asked := wrongs[os.Getenv("STORETEST_WRONG")]
	if !asked {
		t.Skip("see TestSuiteCatchesWrongStores")
	}
	storetest.RunOperations(t, storetest.OperationsHarness{
		Open:      func(testing.TB) store.Operations { return operations{memstore.New(), w} },
		Peer:      func(_ testing.TB, s store.Operations) store.Operations { return s },
		MaxResult: w.maxResult,
		Advance: func(_ testing.TB, s store.Operations, d time.Duration) {
			if !w.stopped {
				s.(operations).Advance(d)
			}
		},
	})
}

// TestSuiteCatchesWrongStores proves that the suite fails on every store that is wrong, at the case that is about
// it, and on no other.
func TestSuiteCatchesWrongStores(t *testing.T) {
	for name, w := range wrongs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWrongStore$", "-test.v")
			cmd.Env = append(os.Environ(), "STORETEST_WRONG="+name)
			out, err := cmd.CombinedOutput()
			if w.caught == "" {
				if err != nil {
					t.Errorf("nothing is wrong: %v\n%s", err, out)
				}
				return
			}
			if err == nil || !bytes.Contains(out, []byte("--- FAIL: TestWrongStore/"+w.caught+" (")) {
				t.Errorf("not caught by %s: %v\n%s", w.caught, err, out)
			}
		})
	}
}
