package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// version is the version of the format of records and manifests. Every later version can read the files of an earlier
// one: see testdata.
const version = 2

// versionOf returns the first version that can represent e. Its line and its segment are marked with this version, so that an earlier
// release can read an archive that has only operations.
func versionOf(e upkeep.Expired) int {
	if e.Table == "" {
		return 1
	}
	return 2
}

// record is a line of a segment. Bytes are base64.
type record struct {
	Version     int       `json:"v"`
	Scope       string    `json:"scope"`
	Key         string    `json:"key"`
	Name        string    `json:"name,omitempty"` // the kind of work
	Fence       int64     `json:"fence"`
	Claim       []byte    `json:"claim"`
	Fingerprint []byte    `json:"fingerprint,omitempty"` // version byte, SHA-256
	Kind        int       `json:"kind"`                  // 0 value, 1 final failure, 2 too large to be kept
	Status      int       `json:"status,omitempty"`      // of HTTP
	Header      []byte    `json:"header,omitempty"`      // "Name: value" lines
	Body        []byte    `json:"body,omitempty"`
	Request     []byte    `json:"request,omitempty"` // encrypted
	Point       string    `json:"point,omitempty"`   // last recovery point
	Calling     bool      `json:"calling,omitempty"`
	Data        []byte    `json:"data,omitempty"`
	Since       time.Time `json:"since"`
	Expired     time.Time `json:"expired"`

	// Table and Row exist since version 2, and are set only for a row that is not an operation. This row also has a scope, a key and
	// the time expired.
	Table string          `json:"table,omitempty"`
	Row   json.RawMessage `json:"row,omitempty"`
}

func encode(to io.Writer, e upkeep.Expired) error {
	for _, s := range []string{e.Scope, e.Key, e.Name, e.RecoveryPoint, e.Table, string(e.Row)} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("the row with the scope %q and the key %q is not valid UTF-8, so the archive cannot store it unchanged", e.Scope, e.Key)
		}
	}
	line, err := json.Marshal(record{
		Version: versionOf(e), Scope: e.Scope, Key: e.Key, Name: e.Name, Fence: e.Fence, Claim: e.Nonce, Fingerprint: e.Fingerprint,
		Kind: int(e.Result.Kind), Status: e.Result.Status, Header: head.Encode(&e.Result), Body: e.Result.Body,
		Request: e.Request, Point: e.RecoveryPoint, Calling: e.CallStarted, Data: e.Data, Since: e.Since.UTC(), Expired: e.At.UTC(),
		Table: e.Table, Row: e.Row,
	})
	if err == nil {
		_, err = to.Write(append(line, '\n'))
	}
	return err
}

// decode reads the next record. At the end it returns io.EOF.
func decode(from *json.Decoder) (e upkeep.Expired, err error) {
	var r record
	switch err := from.Decode(&r); {
	case err != nil:
		return e, err // io.EOF included
	case r.Version < 1 || r.Key == "":
		return e, errors.New("the line is not a record of an archive")
	case r.Version > version:
		return e, fmt.Errorf("the record has version %d, which this program does not know. Try: a newer release of once", r.Version)
	case r.Kind < 0 || r.Kind > 255:
		return e, fmt.Errorf("the result has the kind %d, which this program does not know", r.Kind)
	}
	if r.Table != "" {
		return upkeep.Expired{ID: store.ID{Scope: r.Scope, Key: r.Key}, At: r.Expired, Table: r.Table, Row: r.Row}, nil
	}
	e = upkeep.Expired{ID: store.ID{Scope: r.Scope, Key: r.Key}, At: r.Expired, Record: store.Record{
		State: store.StateDone, Name: r.Name, Fence: r.Fence, Nonce: r.Claim, Fingerprint: r.Fingerprint, Request: r.Request,
		Result:        store.Result{Kind: store.ResultKind(r.Kind), Status: r.Status, Body: r.Body},
		RecoveryPoint: r.Point, CallStarted: r.Calling, Data: r.Data, Since: r.Since,
	}}
	err = head.Decode(r.Header, &e.Result)
	return e, err
}
