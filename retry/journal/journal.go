package journal

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Intent is a request that must take effect once.
type Intent struct {
	ID     string // within its journal
	Key    string // as it is in the header Idempotency-Key
	Method string
	URL    string
	Header http.Header // the kept headers
	Body   []byte

	Since   time.Time // when it was stored: no attempt is older
	Expires time.Time // its key is not sent after this time

	Held   string // why it waits for a person; "" if it does not
	Again  bool   // of Begin: it was already in the journal
	Active bool   // of List: a running request of this process has it
}

// Proof says what the attempts of one call prove about an intent.
type Proof uint8

const (
	ProofNone      Proof = iota // nothing: it stays open
	ProofUntouched              // no attempt had an effect: it is closed, unless other calls may have had one
	ProofAnswered               // its outcome: it is closed
	ProofExpired                // its key is too old to be sent again: it stays open, held for a person
)

// Journal keeps intents. [File] is one.
type Journal interface {
	// Begin makes an intent durable and returns it. If an intent with its key, method and URL is already open, Begin returns that one: with Again,
	// and Since of the first time. Its request must be the same, or Begin fails with [ErrMismatch]. If in.ID is set, only that intent is meant: Begin
	// fails with [ErrGone] if it is not open any more. After an error the request must not be sent.
	Begin(ctx context.Context, in Intent) (Intent, error)

	// End is called once for each Begin without an error. If in.Expires is set, and earlier than the stored time or the first one, it is stored.
	End(ctx context.Context, in Intent, o Proof) error

	// List returns the open intents, oldest first.
	List(ctx context.Context) ([]Intent, error)
}

var (
	// ErrMismatch says that another request has the key of an open intent.
	ErrMismatch = errors.New("journal: the key belongs to another request that is still open. Try: a key of its own for each intent")

	// ErrGone says that an intent to resume was closed meanwhile.
	ErrGone = errors.New("journal: the intent is not open any more")

	// ErrFull says that the journal has no room for another open intent.
	ErrFull = errors.New("journal: the journal is full, so the request was not sent")

	// ErrBroken says that the disk of the journal has failed.
	ErrBroken = errors.New("journal: a write of the journal to its disk has failed, so it accepts no further requests. Try: check the disk, then open the journal again")

	// ErrClosed says that the journal is closed.
	ErrClosed = errors.New("journal: the journal is closed")
)
