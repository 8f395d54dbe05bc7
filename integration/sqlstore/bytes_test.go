package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestAnyByteOnInnoDB: the store writes keys and answers into the text of its statements.
// Whatever is in them comes back, and finds its own row, however the session reads quoted
// text.
func TestAnyByteOnInnoDB(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		seed := uint64(time.Now().UnixNano())
		random := rand.New(rand.NewPCG(seed, 0))
		t.Logf("seed %d", seed)
		texts := []string{"", "'", `\`, `\'`, "''", `"`, "`", "?", "%", "--", "/*", "x'41'", "0x41", "\xbf'", "\xbf\x5c'", "\x1a", "\r\n", "é", "e\u0301", "ß", "ss", "a", "A", "a "}
		for b := range 256 {
			texts = append(texts, "k"+string([]byte{byte(b)})+"'")
		}
		for range 50 {
			b := make([]byte, 1+random.IntN(64))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			texts = append(texts, string(b))
		}
		for name, parameters := range map[string]string{
			"as the server is":       "",
			"no backslash escapes":   "?sql_mode=" + url.QueryEscape("'NO_BACKSLASH_ESCAPES'"),
			"quotation marks":        "?sql_mode=" + url.QueryEscape("'ANSI_QUOTES'"),
			"both, and nothing else": "?sql_mode=" + url.QueryEscape("'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'"),
			"no mode":                "?sql_mode=" + url.QueryEscape("''"),
			"another character set":  "?charset=gbk",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				db, s := on.open(t, parameters, nil)
				for i, text := range texts {
					id := store.ID{Scope: fmt.Sprint(i, " ") + text, Key: text}
					rec := store.Record{
						State: store.StateDone, Fence: 1, Nonce: fmt.Append(nil, i, text), Fingerprint: []byte("f" + text), Request: []byte("r" + text),
						Result: store.Result{Status: 200, Body: []byte("b" + text)},
					}
					c := store.Change{ID: id, Next: rec, Retain: time.Hour}
					commitOrSwap(t, s, c, i%2 == 0)
					got, err := s.Read(t.Context(), id)
					if err != nil || got.State != store.StateDone || !bytes.Equal(got.Nonce, rec.Nonce) || !bytes.Equal(got.Fingerprint, rec.Fingerprint) ||
						!bytes.Equal(got.Request, rec.Request) || !bytes.Equal(got.Result.Body, rec.Result.Body) {
						t.Fatalf("%q: %+v, %v", text, got, err)
					}
					var scope, key []byte // as a client reads them that has nothing to do with the store
					row := db.QueryRowContext(t.Context(), "select scope, `key` from once_operation where claim = ?", rec.Nonce)
					if err := row.Scan(&scope, &key); err != nil || string(scope) != id.Scope || string(key) != id.Key {
						t.Fatalf("%q: in the table are %q and %q, %v", text, scope, key, err)
					}
				}
				if n := count(t, db, "select count(*) from once_operation"); n != len(texts) {
					t.Errorf("%d rows, want %d", n, len(texts))
				}
			})
		}
	})
}

func commitOrSwap(t *testing.T, s store.Store[*sql.Tx], c store.Change, commit bool) {
	t.Helper()
	if !commit {
		if rec, err := s.Swap(t.Context(), c); err != nil {
			t.Fatalf("%q: %+v, %v", c.ID, rec, err)
		}
		return
	}
	txn, rec, err := s.Begin(context.Background(), store.BeginOptions{ID: c.ID})
	if err != nil || txn == nil {
		t.Fatalf("%q: %+v, %v", c.ID, rec, err)
	}
	if err := txn.Commit(context.Background(), c); err != nil {
		t.Fatalf("%q: %v", c.ID, err)
	}
}
