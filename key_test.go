package once_test

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/store/memstore"
)

var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestNewKeyIsUUIDv7(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		before := time.Now().UnixMilli()
		key := once.NewKey()
		after := time.Now().UnixMilli()
		if !uuidV7.MatchString(key) || keyname.Check(key) != nil || seen[key] {
			t.Fatalf("not a new UUID version 7: %s", key)
		}
		seen[key] = true
		ms, err := strconv.ParseInt(strings.ReplaceAll(key, "-", "")[:12], 16, 64)
		if err != nil || ms < before || ms > after {
			t.Fatalf("%s is of %d, made between %d and %d", key, ms, before, after)
		}
	}
}

func TestNewKeySortsByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		for range 1000 {
			keys = append(keys, once.NewKey())
			pass(time.Millisecond)
		}
		if !slices.IsSorted(keys) {
			t.Error("keys do not sort by time")
		}
	})
}

func TestDeriveKey(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct {
		parts []string
		want  string // stored in databases: it must never change
	}{
		{[]string{"refund", "ch_9ab", "1000"}, "refund:ch_9ab:1000"},
		{[]string{"a:b", "c"}, "a%3Ab:c"},
		{[]string{"a", "b:c"}, "a:b%3Ac"},
		{[]string{"50%", "~"}, "50%25:%7E"},
		{[]string{"", ""}, ":"},
		{[]string{long}, long[:207] + "~DU4sqenLztenpTgOsp4aN4O5ttDbct42oQUQOOHB-8c"},
	} {
		if got := once.DeriveKey(tt.parts...); got != tt.want {
			t.Errorf("%.50q: %q, want %q", tt.parts, got, tt.want)
		}
	}
}

// FuzzDeriveKey: other parts, other key. The two lists are cut out of one text
// each, at zero bytes.
func FuzzDeriveKey(f *testing.F) {
	f.Add("a:b\x00c", "a\x00b:c")
	f.Add("a\x00b", "a%3Ab")
	f.Add("a", "a\x00")
	f.Add(strings.Repeat("x", 255), strings.Repeat("x", 256))
	f.Add(strings.Repeat("x", 300)+"\x00a", strings.Repeat("x", 300)+"\x00b")
	f.Add(strings.Repeat("é", 200), strings.Repeat("é", 199)+"\xc3")
	short := strings.Repeat("x", 300)
	f.Add(short, once.DeriveKey(short)) // a short key that looks like a shortened one
	f.Fuzz(func(t *testing.T, a, b string) {
		p, q := strings.Split(a, "\x00"), strings.Split(b, "\x00")
		k, l := once.DeriveKey(p...), once.DeriveKey(q...)
		if (k == l) != slices.Equal(p, q) {
			t.Errorf("%q gives %q, %q gives %q", p, k, q, l)
		}
		if once.DeriveKey(p...) != k {
			t.Error("not the same twice")
		}
		if len(k) > once.MaxKey {
			t.Errorf("%d bytes", len(k))
		}
		all := strings.Join(p, "")
		if utf8.ValidString(all) && !strings.ContainsFunc(all, unicode.IsControl) && k != "" && keyname.Check(k) != nil {
			t.Errorf("%q is made of usable parts, but %v", k, keyname.Check(k))
		}
	})
}

// TestNamespaceOwnsItsKeys: an engine that requires a namespace takes the keys of it, and no other.
func TestNamespaceOwnsItsKeys(t *testing.T) {
	n := once.Namespace{Prefix: "billing", Environment: "live", Version: "v1"}
	e := once.New(memstore.New(), once.Config{RequireNamespace: n})
	for key, own := range map[string]bool{
		n.Key("x"): true, n.Key("x:y"): true, n.Key(":"): true, n.Key("é"): true, "billing:live:v1": false, n.Key(""): false, "x": false,
		"billing:live:v10:x": false, "billing:test:v1:x": false, "xbilling:live:v1:x": false,
	} {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: key}, charge(key))
		if own != (err == nil) || !own && once.CodeOf(err) != once.CodeInvalid {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestCheckKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"k": true, "a b": true, "é😀": true, strings.Repeat("k", once.MaxKey): true,
		"": false, strings.Repeat("k", once.MaxKey+1): false, "a\x00": false, "a\nb": false, "\x7f": false, "\u0085": false, "\xff": false,
	} {
		if err := keyname.Check(key); (err == nil) != ok {
			t.Errorf("%.20q: %v", key, err)
		}
	}
}

func TestHashedKey(t *testing.T) {
	const want = "sha256-LCa0a2j_xo_5m0U8HTBBNBNCLXBkg7-g-YpeiGJm564" // of "foo", stored in databases: it must never change
	if got := keyname.Hashed("foo"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := once.KeyHash("foo"); got != "2c26b46b68ffc68f" || len(got) != hex.EncodedLen(8) {
		t.Errorf("KeyHash: %s", got)
	}
}
