package journal

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Intent is a request that is to take effect once.
type Intent struct {
	ID     string // within its journal
	Key    string // as it is in the header Idempotency-Key
	Method string
	URL    string
	Header http.Header // what the journal keeps of it
	Body   []byte

	Since   time.Time // when it was written down: no attempt is older
	Expires time.Time // from then on its key is not sent any more

	Held   string // why it waits for a person; "": it does not
	Again  bool   // of Begin: it was in the journal already
	Active bool   // of List: a request of this process has it at the moment
}

// Proof is what the attempts of one call prove about an intent.
type Proof uint8

const (
	ProofNone      Proof = iota // nothing: it stays open
	ProofUntouched              // that none of them had an effect: closed, unless others may have had one
	ProofAnswered               // what became of it: closed
	ProofExpired                // its key is too old to be sent again: it stays open, held for a person
)

// Journal keeps intents. [File] is one.
type Journal interface {
	// Begin makes an intent durable and returns it. If one with its key, method and URL
	// is open already, that one is returned: with Again, and Since of the first time. Its
	// request must be the same, or Begin fails with [ErrMismatch]. If in.ID is set, it is
	// that one or none: Begin fails with [ErrGone] if it is not open any more. After an
	// error the request must not be sent.
	Begin(ctx context.Context, in Intent) (Intent, error)

	// End is called once for each Begin that has returned no error. If in.Expires is
	// set, and earlier than it was or the first one, that is noted.
	End(ctx context.Context, in Intent, o Proof) error

	// List returns the intents that are open, oldest first.
	List(ctx context.Context) ([]Intent, error)
}

var (
	// ErrMismatch is another request with the key of one that is still open.
	ErrMismatch = errors.New("journal: the key belongs to another request that is still open. Try: a key of its own for each intent")

	// ErrGone is an intent that was to be resumed, and was closed meanwhile.
	ErrGone = errors.New("journal: the intent is not open any more")

	// ErrFull is an intent for which there is no room among those that are open.
	ErrFull = errors.New("journal: it is full, and the request was not sent")

	// ErrBroken is a journal whose disk has failed.
	ErrBroken = errors.New("journal: its disk has failed, and it takes nothing more. Try: look at the disk, then open the journal again")

	// ErrClosed is a journal that is used after its end.
	ErrClosed = errors.New("journal: it is closed")
)
