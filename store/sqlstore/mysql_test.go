package sqlstore

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"strconv"
	"testing"

	"github.com/oncelib/once/store"
)

// filled is a statement whose values are nothing but values.
var filled = regexp.MustCompile(`^select x'([0-9a-f]*)', (?:x'([0-9a-f]*)'|(null)), (-?[0-9]+) from t where a = x'([0-9a-f]*)' and (true|false)$`)

// FuzzFilledValueStaysOneValue: whatever a value is, it ends where it has to, and is read as what it was. That
// a server reads it so is shown by TestAnyByteOnInnoDB in integration/sqlstore.
func FuzzFilledValueStaysOneValue(f *testing.F) {
	f.Add("scope", []byte("body"), int64(1), "key", true)
	f.Add("'; drop table once_operation; --", []byte(nil), int64(-1<<63), `\`, false)
	f.Add("?", []byte("?"), int64(0), "x''", false)
	f.Add("\x00\xff\xbf\x27", []byte{}, int64(7), "", true)
	f.Fuzz(func(t *testing.T, scope string, body []byte, n int64, key string, yes bool) {
		if len(body) == 0 && n%2 == 0 {
			body = nil
		}
		text := fill("select ?, ?, ? from t where a = ? and ?", scope, body, n, key, yes)
		m := filled.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%q", text)
		}
		for i, want := range map[int][]byte{1: []byte(scope), 2: body, 5: []byte(key)} {
			if got, err := hex.DecodeString(m[i]); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%q is filled in as %q", want, got)
			}
		}
		if (m[3] == "null") != (body == nil) || m[4] != strconv.FormatInt(n, 10) || m[6] != strconv.FormatBool(yes) {
			t.Errorf("%q", text)
		}
	})
}

// TestReservedStoresHaveTheSameLocks: a claim excludes those of the Store that was reserved from.
func TestReservedStoresHaveTheSameLocks(t *testing.T) {
	t.Parallel()
	s := &Store{dialect: mysql, schema: "app"}
	own, release, err := s.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	id := store.ID{Scope: "scope", Key: "key"}
	if got, want := own.(*Store).lockName(id), s.lockName(id); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
