package journal

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Intent is a stored request that must take effect once.
type Intent struct {
	ID     string // identifies the intent within its journal
	Key    string // the value of the header Idempotency-Key
	Method string
	URL    string
	Header http.Header // the headers that are stored
	Body   []byte

	Since   time.Time // when the intent was stored, before its first attempt
	Expires time.Time // the key is not sent after this time

	Held   string // why the intent waits for an operator; "" if it does not wait
	Again  bool   // set by Begin: the intent was already in the journal
	Active bool   // set by List: a running request of this process uses the intent
}

// Proof says what the attempts of one call prove about an intent.
type Proof uint8

const (
	ProofNone      Proof = iota // the attempts prove nothing: the intent stays open
	ProofUntouched              // no attempt had an effect: the intent is closed, unless an earlier or parallel call may have had an effect
	ProofAnswered               // the outcome is known: the intent is closed
	ProofExpired                // the key is too old to be sent again: the intent stays open, held for an operator
)

// Journal stores intents. [File] and [Table] implement Journal.
type Journal interface {
	// Begin stores an intent durably and returns it. If an intent with the same key, method and URL is already open, Begin returns the open intent,
	// with Again set and with its original Since. The rest of the request must then be the same, or Begin fails with [ErrMismatch]. If in.ID is set,
	// Begin looks only for the open intent with this ID, and fails with [ErrGone] if that intent is closed. After any error the request must not be
	// sent.
	Begin(ctx context.Context, in Intent) (Intent, error)

	// End is called once for each Begin that returned no error, with the Proof that the attempts have given. The context of End ends after
	// 5 seconds. If in.Expires is set, and no earlier expiry is stored, End stores in.Expires as the expiry of the key.
	End(ctx context.Context, in Intent, o Proof) error

	// List returns the open intents, the oldest first.
	List(ctx context.Context) ([]Intent, error)
}

var (
	// ErrMismatch is returned if an open intent already has the same key, but a different
	// request.
	ErrMismatch = errors.New("journal: another open intent has the same key, but another request. Try: a different key for each intent")

	// ErrGone is returned if an intent is no longer open when it should be resumed.
	ErrGone = errors.New("journal: the intent is not open any more")

	// ErrFull is returned if the journal has no room for another open intent: see [Config].MaxOpen.
	ErrFull = errors.New("journal: the journal is full, so the request was not sent")

	// ErrBroken is returned after a write or flush of the journal's file has failed.
	ErrBroken = errors.New("journal: a write of the journal to its disk has failed, so it accepts no further requests. Try: check the disk, then open the journal again")

	// ErrClosed is returned after [File.Close].
	ErrClosed = errors.New("journal: the journal is closed")
)
