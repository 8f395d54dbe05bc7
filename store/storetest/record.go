package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/store"
)

// foreignText is text that the engine refuses in a scope or key.
var foreignText = []string{"\x00", "a\x00b", "\xff", "\xc3"}

// testForeignText proves that the store itself accepts or refuses such a scope or key. It must not report that it is down,
// because a caller would then wait and try again.
func testForeignText(t *testing.T, o *operations) {
	for _, text := range foreignText {
		for _, id := range []store.ID{{Scope: "storetest", Key: once.NewKey() + text}, {Scope: text, Key: once.NewKey()}} {
			_, err := o.s.Read(bounded(t), id)
			notDown(t, "Read", id, err)
			_, err = o.s.Swap(bounded(t), done(id, "foreign"))
			notDown(t, "Swap", id, err)
		}
	}
}

func testForeignBegin[TX any](t *testing.T, u *suite[TX]) {
	for _, text := range foreignText {
		for _, id := range []store.ID{{Scope: "storetest", Key: once.NewKey() + text}, {Scope: text, Key: once.NewKey()}} {
			txn, _, err := u.s.Begin(bounded(t), store.BeginOptions{ID: id})
			notDown(t, "Begin", id, err)
			if txn != nil {
				_ = txn.Rollback(bounded(t))
			}
		}
	}
	testForeignText(t, u.operations)
}

func notDown(t *testing.T, what string, id store.ID, err error) {
	t.Helper()
	if kind := store.KindOf(err); err != nil && kind != store.KindOther {
		t.Errorf("%s of %q has returned %v, want an error of kind failed", what, id, err)
	}
}

// testRecord proves that every field of a record is read byte by byte as it was written.
func testRecord(t *testing.T, o *operations) {
	t.Run("RoundTrip", func(t *testing.T) {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		for i := range 150 {
			by := o.puts[i%len(o.puts)]
			rec := randomRecord(r, store.State(1+r.IntN(4)))
			if i%4 == 0 {
				rec = atomic(randomRecord(r, store.StateDone))
			}
			id := newID()
			by.put(t, change(id, store.Expect{}, rec))
			o.same(t, fmt.Sprintf("seed %d, record %d, by %s", seed, i, by.name), id, rec)

			rec.Fence++
			next := randomRecord(r, store.State(1+r.IntN(4)))
			next.Fence = rec.Fence
			if rec.State == store.StateDone {
				continue
			}
			o.swap(t, change(id, store.Expect{Fence: rec.Fence - 1}, next)) // nothing of the old record may remain
			o.same(t, fmt.Sprintf("seed %d, record %d, by a second Swap", seed, i), id, next)
		}
	})
	t.Run("Body", func(t *testing.T) {
		size := cmp.Or(o.maxResult, 1<<20)
		large := randomBytes(rand.New(rand.NewPCG(1, 1)), size, size)
		for name, body := range map[string][]byte{
			"nil": nil, "empty": {}, "zero byte": {0}, "newline": []byte("\r\n"), "not UTF-8": {0xff, 0xfe, 0x80}, "every byte": everyByte(), "the largest": large,
		} {
			for _, kind := range []store.ResultKind{store.ResultValue, store.ResultFailure, store.ResultOmitted} {
				for _, by := range o.puts {
					if len(body) > 1000 && by.name != "Swap" && by.name != "Commit" {
						continue // it takes long, and proves nothing more
					}
					rec := claimed(store.Record{State: store.StateDone, Fence: 1, Result: store.Result{Kind: kind, Status: 200, Body: body}})
					id := newID()
					by.put(t, change(id, store.Expect{}, rec))
					o.same(t, name+", by "+by.name, id, rec)
				}
			}
		}
	})
	t.Run("TooLarge", func(t *testing.T) {
		if o.maxResult == 0 {
			return
		}
		for _, by := range o.puts {
			c := change(newID(), store.Expect{}, store.Record{State: store.StateDone, Fence: 1, Result: store.Result{Body: make([]byte, 2*o.maxResult)}})
			wantKind(t, by.apply(t, c), store.KindOther)
			o.wantState(t, c.ID, store.StateAbsent)
		}
	})
	t.Run("Header", func(t *testing.T) {
		rec := claimed(store.Record{State: store.StateDone, Fence: 1, Result: store.Result{Status: 201, Header: []store.Field{
			{Name: "B", Value: "1"}, {Name: "A", Value: "2"}, {Name: "B", Value: "1"}, {Name: "b", Value: ""},
			{Name: "A", Value: " a: b, \"c\"; ünï\x00\xff"},
		}}})
		id := newID()
		o.swap(t, change(id, store.Expect{}, rec))
		o.same(t, "order and duplicates", id, rec)
	})
	t.Run("Events", func(t *testing.T) {
		for _, r := range []store.Result{{Events: []string{newID().Key}}, {Events: []string{newID().Key, newID().Key}, Header: []store.Field{{Name: "A", Value: "b"}}, RolledBack: true}} {
			id, rec := newID(), claimed(store.Record{State: store.StateDone, Fence: 1, Result: r})
			o.swap(t, change(id, store.Expect{}, rec))
			o.same(t, "IDs of events", id, rec)
		}
	})
	t.Run("Owned", func(t *testing.T) { // a caller that changes its slices must not change a record
		for _, by := range o.puts {
			id := newID()
			c := done(id, "as it was")
			by.put(t, c)
			want := done(id, "as it was").Next
			clear(c.Next.Result.Body)
			rec := o.read(t, id)
			o.same(t, "after the writer reused its slice", id, want)
			clear(rec.Result.Body)
			o.same(t, "after a reader changed what it got", id, want)
		}
	})
	t.Run("Keys", func(t *testing.T) { testKeys(t, o) })
}

// testKeys proves that keys are compared by their bytes, and that no key needs escapes.
func testKeys(t *testing.T, o *operations) {
	tag := once.NewKey() // the scopes of this run begin with it
	ids := []store.ID{{Scope: tag + "a", Key: "bc"}, {Scope: tag + "ab", Key: "c"}, {Scope: "c", Key: tag + "ab"}}
	for _, key := range []string{
		"k", "K", "k ", " k", "kk", "straße", "strasse", "STRASSE", "\u00e9", "e\u0301", "é ", "ｋ", "\u212a", "日本", "😀", "\u200b", "\ufeff",
		`'`, `"`, "`", `\`, `\'`, `''`, "%", "_", "$1", "?", ":k", "@k", "--", "/*", ";", "null", "NULL", "0", "00", "0x6b", "1e0", "{}",
		"a:b", "a%3Ab", strings.Repeat("k", once.MaxKey), strings.Repeat("k", once.MaxKey-1), strings.Repeat("é", once.MaxKey/2), strings.Repeat("😀", once.MaxKey/4),
		strings.Repeat("k", once.MaxKey-1) + "K",
	} {
		ids = append(ids, store.ID{Scope: tag, Key: key}, store.ID{Scope: tag + strings.Repeat("é", (keyname.MaxScope-len(tag))/2), Key: key})
	}
	for i, id := range ids {
		if err := o.puts[i%len(o.puts)].apply(t, done(id, fmt.Sprint(i))); err != nil {
			t.Fatalf("%q: %v", id, err)
		}
	}
	for i, id := range ids {
		if got := string(o.read(t, id).Result.Body); got != fmt.Sprint(i) {
			t.Errorf("%q has the result of %q", id, got)
		}
	}
}

// diff describes the differences between two records that a store must preserve. nil and empty bytes are the same. Since and
// LeaseExpired are not compared, because the store sets them.
func diff(want, got store.Record) string {
	var s []string
	add := func(field string, want, got any) {
		s = append(s, fmt.Sprintf("%s is %.80q, want %.80q", field, got, want))
	}
	for _, f := range []struct {
		name      string
		want, got []byte
	}{
		{"Fingerprint", want.Fingerprint, got.Fingerprint},
		{"Nonce", want.Nonce, got.Nonce},
		{"Request", want.Request, got.Request},
		{"Data", want.Data, got.Data},
		{"Result.Body", want.Result.Body, got.Result.Body},
	} {
		if !bytes.Equal(f.want, f.got) {
			add(f.name, f.want, f.got)
		}
	}
	if !slices.Equal(want.Result.Header, got.Result.Header) {
		add("Result.Header", fmt.Sprint(want.Result.Header), fmt.Sprint(got.Result.Header))
	}
	if !slices.Equal(want.Result.Events, got.Result.Events) {
		add("Result.Events", fmt.Sprint(want.Result.Events), fmt.Sprint(got.Result.Events))
	}
	type plain struct {
		State   store.State
		Kind    store.ResultKind
		Status  int
		Fence   int64
		Point   string
		Calling bool
		Trace   string
		Name    string
	}
	flat := func(r store.Record) plain {
		return plain{r.State, r.Result.Kind, r.Result.Status, r.Fence, r.RecoveryPoint, r.CallStarted, r.Trace, r.Name}
	}
	if flat(want) != flat(got) {
		add("the rest", fmt.Sprintf("%+v", flat(want)), fmt.Sprintf("%+v", flat(got)))
	}
	return strings.Join(s, "; ")
}

// change returns the change of id to rec, with times that end after every case.
func change(id store.ID, expect store.Expect, rec store.Record) store.Change {
	rec = claimed(rec)
	return store.Change{ID: id, Expect: expect, Next: rec, Lease: time.Hour, Retain: time.Hour}
}

// claimed returns rec with a nonce, because every stored record has one.
func claimed(rec store.Record) store.Record {
	if rec.Nonce == nil && rec.State != store.StateAbsent {
		rec.Nonce = []byte("0123456789abcdef")
	}
	return rec
}

// atomic returns rec without the fields of leased work, a trace and a name, as most records are.
func atomic(rec store.Record) store.Record {
	rec.Fence, rec.RecoveryPoint, rec.CallStarted, rec.Data, rec.Trace, rec.Name = 1, "", false, nil, "", ""
	return rec
}

func randomRecord(r *rand.Rand, state store.State) store.Record {
	rec := store.Record{
		State: state, Fence: 1 + r.Int64N(math.MaxInt64-2), Nonce: randomBytes(r, 16, 16),
		Fingerprint: randomBytes(r, 0, 33), Request: randomBytes(r, 0, 100),
		RecoveryPoint: randomText(r), CallStarted: r.IntN(2) == 0, Data: randomBytes(r, 0, 1000),
	}
	if r.IntN(2) == 0 {
		rec.Trace = fmt.Sprintf("00-%x-%x-01", randomBytes(r, 16, 16), randomBytes(r, 8, 8))
	}
	if r.IntN(2) == 0 {
		rec.Name = "POST /" + randomText(r)
	}
	if state != store.StateDone {
		return rec
	}
	rec.Result = store.Result{Kind: store.ResultKind(r.IntN(3)), Status: r.IntN(600), Body: randomBytes(r, 0, 5000)}
	for range r.IntN(5) {
		value := bytes.ReplaceAll(randomBytes(r, 0, 50), []byte("\n"), nil)
		rec.Result.Header = append(rec.Result.Header, store.Field{Name: strings.ReplaceAll(randomText(r), ":", ""), Value: string(value)})
	}
	return rec
}

func randomBytes(r *rand.Rand, from, to int) []byte {
	b := make([]byte, from+r.IntN(to-from+1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// randomText returns text that a text column can hold: without zero bytes and line ends.
func randomText(r *rand.Rand) string {
	alphabet := []rune("abcXYZ09-_:/ '\"\\%$?éß日😀")
	text := make([]rune, r.IntN(20))
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}

func everyByte() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
