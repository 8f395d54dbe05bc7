package sqljournal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once/retry/journal"
)

// Begin implements [journal.Journal].
func (j *Journal) Begin(ctx context.Context, in journal.Intent) (journal.Intent, error) {
	mine := in
	args, err := j.fields(&mine, 1)
	if err != nil {
		return in, err
	}
	got, err := j.begin(ctx, mine, args)
	switch {
	case errors.Is(err, journal.ErrOther):
		return in, err
	case err != nil: // it may have been written down all the same
		err = fmt.Errorf("sqljournal: the intent could not be written down, and its request was not sent: %w. Try: does the database answer, and has it been migrated?", err)
		return in, errors.Join(err, j.withdraw(ctx, mine.ID))
	}
	return got, nil
}

// begin writes mine down, or counts one more call of what is there.
func (j *Journal) begin(ctx context.Context, mine journal.Intent, args []any) (journal.Intent, error) {
	for ctx.Err() == nil {
		added, err := j.exec(ctx, j.insert, args...)
		switch {
		case err != nil:
			return mine, err
		case added && j.counts:
			return mine, nil
		}
		there, calls, err := j.read(ctx, " where name = ?", args[0])
		switch {
		case err != nil:
			return mine, err
		case len(there) == 0: // it was closed meanwhile
			continue
		case there[0].ID == mine.ID:
			return mine, nil
		case !slices.Equal(there[0].Body, mine.Body) || !slices.Equal(there[0].Header["Content-Type"], mine.Header["Content-Type"]):
			return mine, journal.ErrOther
		}
		counted, err := j.exec(ctx, j.text("update once_intent set calls = calls + 1 where id = ? and calls = ?"), there[0].ID, calls[0])
		if err != nil {
			return mine, err
		}
		if counted {
			there[0].Again = calls[0] > 0
			return there[0], nil
		}
	}
	return mine, context.Cause(ctx)
}

// withdraw deletes an intent that may have been written down, although the caller is told
// that it was not. If another call has begun it meanwhile, it is the intent of that one.
func (j *Journal) withdraw(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := j.exec(ctx, j.text("delete from once_intent where id = ? and calls = 1"), id); err != nil {
		return fmt.Errorf("sqljournal: it is not sure that it is not there, and then it will be sent when the journal is resumed: %w", err)
	}
	return nil
}
