package once_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

var update = flag.Bool("update", false, "write testdata, and the tiers of GUARANTEES.md and PROOFS.md")

// Records that an earlier version has stored must be replayed by every later one.
// A file holds one: what was asked, the columns as they lay in the database, and
// what a replay returned. Files are added, never changed: a test that fails here
// means that users would lose answers with an upgrade.
type storedRecord struct {
	About  string  `json:"about"`
	Asked  asked   `json:"asked"`
	Stored columns `json:"stored"`
	Replay replay  `json:"replay"`
}

// asked is the operation. Bytes are base64.
type asked struct {
	Scope       string   `json:"scope"`
	Key         string   `json:"key,omitempty"`
	DeriveKey   []string `json:"derive_key,omitempty"`  // in place of key
	Fingerprint [][]byte `json:"fingerprint,omitempty"` // its parts
	HashKeys    bool     `json:"hash_keys,omitempty"`
	SealKey     []byte   `json:"seal_key,omitempty"`
}

func (a asked) operation() once.Operation {
	op := once.Operation{Scope: a.Scope, Key: a.Key}
	if a.DeriveKey != nil {
		op.Key = once.DeriveKey(a.DeriveKey...)
	}
	if a.Fingerprint != nil {
		op.Fingerprint = once.FingerprintOf(a.Fingerprint...)
	}
	return op
}

// columns are what the stores keep.
type columns struct {
	Scope       string `json:"scope"`
	Key         string `json:"key"`
	State       int    `json:"state"`
	Fence       int64  `json:"fence"`
	Claim       []byte `json:"claim"`
	Fingerprint []byte `json:"fingerprint,omitempty"`
	Status      int    `json:"status,omitempty"`
	Kind        int    `json:"kind,omitempty"`
	Head        []byte `json:"head,omitempty"`
	Body        []byte `json:"body,omitempty"`
	Request     []byte `json:"request,omitempty"`
	Point       string `json:"point,omitempty"`
	Calling     bool   `json:"calling,omitempty"`
	Data        []byte `json:"data,omitempty"`
	Lapsed      bool   `json:"lapsed,omitempty"` // as the database's clock sees it
}

// replay is what came back: from Exec status, header and body, from Do the value,
// the failure, or the code.
type replay struct {
	Code    once.Code       `json:"code,omitempty"`
	Status  int             `json:"status,omitempty"`
	Header  []string        `json:"header,omitempty"` // quoted as in Go
	Body    []byte          `json:"body,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Failure *once.Failure   `json:"failure,omitempty"`
	Request []byte          `json:"request,omitempty"` // the sealed one, opened
}

func TestStoredRecordsReplay(t *testing.T) {
	if *update {
		addRecords(t)
	}
	files, err := filepath.Glob("testdata/records/*.json")
	must(t, err)
	if len(files) < len(recordings) {
		t.Errorf("%d records, but %d are known. Try: go test -run StoredRecords -update .", len(files), len(recordings))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			must(t, err)
			var r storedRecord
			must(t, json.Unmarshal(b, &r))
			got := r.replayNow(t)
			want, err := json.MarshalIndent(r.Replay, "", "\t")
			must(t, err)
			now, err := json.MarshalIndent(got, "", "\t")
			must(t, err)
			if !bytes.Equal(want, now) {
				t.Errorf("%s\nreplayed as %s\nbut it was   %s", r.About, now, want)
			}
		})
	}
}

// replayNow puts the columns into a store and asks for the operation again.
func (r storedRecord) replayNow(t *testing.T) (got replay) {
	t.Helper()
	s := memstore.New()
	c := r.Stored
	rec := store.Record{
		State: store.State(c.State), Fence: c.Fence, Nonce: c.Claim, Fingerprint: c.Fingerprint,
		Result:  store.Result{Kind: store.ResultKind(c.Kind), Status: c.Status, Body: c.Body},
		Request: c.Request, RecoveryPoint: c.Point, CallStarted: c.Calling, Data: c.Data,
	}
	var err error
	err = head.Decode(c.Head, &rec.Result)
	must(t, err)
	id := store.ID{Scope: c.Scope, Key: c.Key}
	_, err = s.Swap(t.Context(), store.Change{ID: id, Next: rec, Lease: time.Hour, Retain: 1000 * time.Hour})
	must(t, err)
	if c.Lapsed {
		s.Advance(2 * time.Hour)
	}
	e := once.New(s, once.Config{HashKeys: r.Asked.HashKeys})
	op := r.Asked.operation()
	found, _, execErr := e.Exec(t.Context(), op, func(context.Context, tx) (once.Answer, error) {
		t.Error("executed, not replayed")
		return once.Answer{}, nil
	})
	if execErr == nil {
		got.Status, got.Body = found.Result.Status, found.Result.Body
		for _, f := range found.Result.Header {
			got.Header = append(got.Header, fmt.Sprintf("%+q: %+q", f.Name, f.Value))
		}
	}
	value, err := once.Do(t.Context(), e, op, func(context.Context, tx) (json.RawMessage, error) {
		t.Error("executed, not replayed")
		return nil, nil
	})
	if !errors.As(err, &got.Failure) {
		got.Code, got.Value = once.CodeOf(err), value.Value
	}
	if r.Asked.SealKey != nil {
		sealer, err := once.NewEncrypter(r.Asked.SealKey)
		must(t, err)
		got.Request, err = sealer.Decrypt(c.Request, seal.Label(id.Scope, id.Key))
		must(t, err)
	}
	return got
}

// addRecords writes the files that are missing.
func addRecords(t *testing.T) {
	t.Helper()
	for name, recording := range recordings {
		file := filepath.Join("testdata", "records", name+".json")
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r := recording.record(t)
		r.Replay = r.replayNow(t)
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		must(t, enc.Encode(r))
		must(t, os.WriteFile(file, b.Bytes(), 0o644))
		t.Log("added", file)
	}
}
