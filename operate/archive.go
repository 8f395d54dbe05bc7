package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/retention/archive"
	"github.com/oncelib/once/store/upkeep"
)

// Archive is a directory of files. A sweep (a run of package retention) deletes expired operations and expired rows of other tables. Before the
// deletion, the sweep writes the expired operations and rows to the files of the Archive.
type Archive struct{ dir string }

// OpenArchive opens the archive in the directory dir.
func OpenArchive(dir string) (*Archive, error) {
	_, err := archive.Segments(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%s is not an archive, or its manifest is lost: %w. Try: use the DIR that you gave to once sweep --archive", words.Shown(dir), err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w. Try: run the command as a user who may read %s", err, words.Shown(dir))
	case err != nil:
		return nil, err //nolint:wrapcheck // it is of package archive
	}
	return &Archive{dir}, nil
}

// Verified is the result of [Archive.Verify]: the size of an archive, and its damaged or missing files.
type Verified struct {
	Segments int              `json:"segments"`
	Rows     int              `json:"rows"`
	Bytes    int64            `json:"bytes"`
	Damaged  []DamagedSegment `json:"damaged"`
}

// DamagedSegment is a file of an archive that is missing or differs from the manifest, the archive's list of files.
type DamagedSegment struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

// Verify compares the size, the SHA-256 and the number of rows of each file (segment) with the manifest, the archive's list of files.
func (a *Archive) Verify(ctx context.Context) (Verified, error) {
	list, damaged, err := archive.Verify(ctx, a.dir)
	v := Verified{Segments: len(list), Damaged: convert(damaged, func(d archive.Damage) DamagedSegment { return DamagedSegment{d.File, d.Err.Error()} })}
	for _, s := range list {
		v.Rows, v.Bytes = v.Rows+s.Rows, v.Bytes+s.Bytes
	}
	return v, err //nolint:wrapcheck // likewise
}

// StateArchived is the [Operation].State of an operation that [Archive.Find] has found in an archive.
const StateArchived = "archived"

// Find returns the archived operations of the parameter scope whose stored key is the parameter key or the hash of this key. If scope is "", Find
// searches every scope. If a key was used again after its retention, Find returns several operations.
func (a *Archive) Find(ctx context.Context, scope, key string) ([]Operation, error) {
	names := map[string]bool{key: true, keyname.Hashed(key): true}
	// The quotes around a key may belong to the header syntax, or to the key.
	if bare, quotes := keyname.Unquoted(key); quotes {
		names[bare], names[keyname.Hashed(bare)] = true, true
	}
	found := []Operation{}
	seen := map[string]bool{}
	for e, err := range archive.Records(a.dir) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return found, fmt.Errorf("the archive cannot be read: %w. Try: once archive verify %s", err, words.Quoted(a.dir))
		}
		if e.Table == "" && names[e.Key] && (scope == "" || scope == e.Scope) && !seen[e.Scope+"\x00"+string(e.Nonce)] {
			seen[e.Scope+"\x00"+string(e.Nonce)] = true // an archive can contain a record twice, because a sweep can be killed between the write and the delete
			found = append(found, archived(e))
		}
	}
	return found, nil
}

// ArchivedRow is an archived row of a table other than the table of operations: a delivered message, a receipt, an event of webhooks, or an attempt
// to send a webhook.
type ArchivedRow struct {
	Table     string          `json:"table"`
	Scope     string          `json:"scope,omitempty"` // in a row of a message: the topic of the message
	Key       string          `json:"key"`             // in a row of a message: the ID of the message; in a row of a receipt: the operation of the receipt
	ExpiredAt time.Time       `json:"expired_at"`
	Row       json.RawMessage `json:"row"` // the columns of the row; bytes are in base64
}

// FindRows returns the archived rows that have the given table, scope and key. If scope is "", FindRows searches every scope. If the archive has
// several versions of a row, because the row has changed between two sweeps (runs of package retention), FindRows returns one ArchivedRow for each
// version.
func (a *Archive) FindRows(ctx context.Context, table, scope, key string) ([]ArchivedRow, error) {
	found := []ArchivedRow{}
	seen := map[string]bool{}
	for e, err := range archive.Records(a.dir) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return found, fmt.Errorf("the archive cannot be read: %w. Try: once archive verify %s", err, words.Quoted(a.dir))
		}
		if e.Table == table && table != "" && e.Key == key && (scope == "" || scope == e.Scope) && !seen[e.Scope+"\x00"+string(e.Row)] {
			seen[e.Scope+"\x00"+string(e.Row)] = true // an archive can contain a record twice
			found = append(found, ArchivedRow{e.Table, e.Scope, e.Key, e.At, e.Row})
		}
	}
	return found, nil
}

func archived(e upkeep.Expired) Operation {
	return Operation{
		Scope: e.Scope, Key: e.Key, Name: e.Name, State: StateArchived, Since: e.Since, ExpiresAt: &e.At, Fence: e.Fence,
		Result: resultOf(e.Result.Kind), Status: e.Result.Status, Fingerprint: fingerprintOf(e.Fingerprint),
		Effect: effectOf(e.Result), RecoveryPoint: e.RecoveryPoint, CallStarted: e.CallStarted, Captured: e.Request != nil, Now: time.Now(),
		ResultBytes: head.Size(e.Result.Header) + len(e.Result.Body),
	}
}

// Pass is the result of one run of a sweeper, which deletes the expired rows.
type Pass struct {
	Rows   int    `json:"rows"`
	Millis int64  `json:"took_ms"`
	Error  string `json:"error,omitempty"`
}

// PassOf converts the result of a run of a sweeper into the form that scripts read as JSON.
func PassOf(p retention.Pass) Pass {
	pass := Pass{Rows: p.Rows, Millis: p.Took.Milliseconds()}
	if p.Err != nil {
		pass.Error = p.Err.Error()
	}
	return pass
}
