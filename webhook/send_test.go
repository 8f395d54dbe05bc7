package webhook

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// noDatabase is one that is not asked.
type noDatabase struct{ sqlplane.SQL[int] }

func (noDatabase) Dialect() sqlplane.Dialect { return sqlplane.PostgreSQL }

// TestNewNeedsAnEncrypter: without an Encrypter there are no webhooks, unless PlainSecrets says so by name.
func TestNewNeedsAnEncrypter(t *testing.T) {
	e, err := once.NewEncrypter(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cfg   Config
		valid bool
	}{
		{Config{}, false}, {Config{Encrypter: e}, true}, {Config{PlainSecrets: true}, true}, {Config{Encrypter: e, PlainSecrets: true}, false},
		{Config{Encrypter: e, MaxEndpoints: -1}, false}, {Config{Encrypter: e, MaxEndpoints: 1001}, false}, {Config{Encrypter: e, MaxData: -1}, false}, {Config{Encrypter: e, Retain: -1}, false},
	} {
		panicked := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			New[int](noDatabase{}, c.cfg)
			return false
		}()
		if panicked == c.valid {
			t.Errorf("%+v: panicked %t", c.cfg, panicked)
		}
	}
}

// TestPartsNeverChange: relays of different releases share the parts.
func TestPartsNeverChange(t *testing.T) {
	for endpoint, want := range map[string]int{"": 5, "a": 44, "ep_0198c2f1a2b37c4d8e9fa0b1c2d3e4f5": 1} {
		if got := partOf(endpoint); got != want {
			t.Errorf("the part of %q is %d, want %d", endpoint, got, want)
		}
	}
}

// TestOneStatement: on PostgreSQL an event and its deliveries are one statement, whatever the type is; and its text is one of a few.
func TestOneStatement(t *testing.T) {
	cfg := Config{MaxData: 10}
	texts := map[string]bool{}
	for n := range 2 * maxSegments {
		kind := strings.TrimSuffix(strings.Repeat("a.", n%maxSegments+1), ".")
		list, err := cfg.statements(t.Context(), sqlplane.PostgreSQL, nil, []Event{{Tenant: "acme", Type: kind}})
		if err != nil || len(list) != 1 || strings.Count(list[0].SQL, "$") != len(list[0].Args)+1 { // the tenant twice
			t.Fatalf("%s: %d statements, %v: %+v", kind, len(list), err, list)
		}
		texts[list[0].SQL] = true
	}
	if len(texts) != maxSegments {
		t.Errorf("%d texts", len(texts))
	}
}

// TestSendFreezes: what the caller does with the data after Send changes nothing.
func TestSendFreezes(t *testing.T) {
	data := []byte("before")
	list, err := (&Config{MaxData: 10}).statements(t.Context(), sqlplane.SQLite, nil, []Event{{Tenant: "acme", Type: "a", Data: data}})
	if err != nil {
		t.Fatal(err)
	}
	copy(data, "after!")
	if !slices.ContainsFunc(list, func(s store.Statement) bool {
		return slices.ContainsFunc(s.Args, func(v any) bool { b, ok := v.([]byte); return ok && string(b) == "before" })
	}) {
		t.Errorf("%+v", list)
	}
}

// TestOffsetSpreadsDeliveries: at a rate, deliveries become due one after the other, however many there are.
func TestOffsetSpreadsDeliveries(t *testing.T) {
	for _, c := range []struct {
		rate float64
		n    int64
		want time.Duration // of the second event
	}{{2, 99, 50 * time.Second}, {0.001, 2, 3000 * time.Second}} {
		if _, args := (&Period{Rate: c.rate}).due("v", []any{int64(7), int64(8)}, c.n); args[2] != int64(8) || args[3] != -c.want.Microseconds() || len(args) != 2*batch {
			t.Errorf("%v after %d: %v", c.rate, c.n, args)
		}
	}
}

// naive says what a pattern is, word by word.
func naive(pattern, kind string) bool {
	if pattern == "*" {
		return true
	}
	p, k := strings.Split(pattern, "."), strings.Split(kind, ".")
	if p[len(p)-1] != "*" {
		return slices.Equal(p, k)
	}
	p = p[:len(p)-1]
	return len(k) > len(p) && slices.Equal(p, k[:len(p)])
}

// FuzzTypesMatchWordByWord: an endpoint gets what its patterns say, word by word, also with several patterns; and what is no type or pattern is refused.
func FuzzTypesMatchWordByWord(f *testing.F) {
	for _, seed := range [][2]string{{"*", "a"}, {"refund.*", "refund.succeeded"}, {"refund.* a", "refund"}, {"a.b", "a.b.c"}, {"a.b.*", "a.bc"}, {"a. *", "a"}, {"*.*", "a.b"}, {"a.*.*", "a.b.c"}, {"A.*", "a.b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, list, kind string) {
		patterns, err := checkPatterns(strings.Split(list, " "))
		if err != nil || checkType(kind) != nil {
			if wants(" "+everything+" ", kind) != true {
				t.Error("all is not all")
			}
			return
		}
		want := slices.ContainsFunc(patterns, func(p string) bool { return naive(p, kind) })
		if got := wants(column(patterns), kind); got != want || len(wanting(kind)) > maxSegments+1 || !slices.Equal(strings.Fields(column(patterns)), patterns) {
			t.Errorf("%q wants %q: %t, want %t", patterns, kind, got, want)
		}
	})
}
