package journal

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Intent is a stored request that must take effect once.
type Intent struct {
	ID     string // the ID of the intent, unique within its journal
	Key    string // the value of the header Idempotency-Key
	Method string
	URL    string
	Header http.Header // the headers that are stored
	Body   []byte

	Since   time.Time // when the intent was stored, before its first attempt
	Expires time.Time // the time after which the key is not sent any more

	Held   string // the reason why the intent waits for an operator; "" if the intent does not wait
	Again  bool   // set by Begin: true if the intent was already in the journal
	Active bool   // set by List: true if a running request of this process uses the intent
}

// Proof says what the attempts of one call prove about an intent.
type Proof uint8

const (
	ProofNone      Proof = iota // the attempts prove nothing about the outcome: the intent stays open
	ProofUntouched              // no attempt had an effect: the intent is closed, unless an earlier or parallel call may have had an effect
	ProofAnswered               // the outcome is known: the intent is closed
	ProofExpired                // the key is too old to be sent again: the intent stays open, held for an operator
)

// Journal stores intents. [File] and [Table] implement Journal.
type Journal interface {
	// Begin stores an intent durably and returns the stored intent. If an intent with the same key, method and URL is already open, Begin returns
	// the open intent: its field Again is true, and its field Since has the time of the first Begin. If the body or the Content-Type of the open
	// intent is different, Begin fails with [ErrMismatch]. If in.ID is set, Begin looks only for the open intent with this ID, and fails with
	// [ErrGone] if the intent with this ID is closed. If Begin returns any error, the request must not be sent.
	Begin(ctx context.Context, in Intent) (Intent, error)

	// End is called once for each call of Begin that returned no error. The Proof o says what the attempts prove about the outcome. The
	// context of End ends after 5 seconds. If in.Expires is set, and the journal has no earlier expiry of the key, End stores in.Expires
	// as the expiry of the key.
	End(ctx context.Context, in Intent, o Proof) error

	// List returns the open intents. The oldest intent is the first in the list.
	List(ctx context.Context) ([]Intent, error)
}

var (
	// ErrMismatch is returned if the journal already has an open intent with the same key, and the
	// request of this open intent is different.
	ErrMismatch = errors.New("journal: another open intent has the same key, but another request. Try: a different key for each intent")

	// ErrGone is returned if an intent is already closed when its request is about to be sent again.
	ErrGone = errors.New("journal: the intent is not open any more")

	// ErrFull is returned if the journal has no room for another open intent: see [Config].MaxOpen.
	ErrFull = errors.New("journal: the journal is full, so the request was not sent")

	// ErrBroken is returned after a write or flush of the journal's file has failed.
	ErrBroken = errors.New("journal: a write of the journal to its disk has failed, so it accepts no further requests. Try: check the disk, then open the journal again")

	// ErrClosed is returned after [File.Close].
	ErrClosed = errors.New("journal: the journal is closed")
)
