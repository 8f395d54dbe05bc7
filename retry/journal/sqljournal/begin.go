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
	if in.ID != "" {
		return j.again(ctx, in)
	}
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
		}
		if counted, err := j.count(ctx, &there[0], calls[0], mine); err != nil || counted {
			return there[0], err
		}
	}
	return mine, context.Cause(ctx)
}

// again counts one more call of an intent, if it is open.
func (j *Journal) again(ctx context.Context, in journal.Intent) (journal.Intent, error) {
	for ctx.Err() == nil {
		there, calls, err := j.read(ctx, " where id = ?", in.ID)
		if err != nil {
			return in, fmt.Errorf("sqljournal: %w", err)
		}
		if len(there) == 0 {
			return in, journal.ErrGone
		}
		if counted, err := j.count(ctx, &there[0], calls[0], in); err != nil || counted {
			return there[0], err
		}
	}
	return in, context.Cause(ctx)
}

// count counts one more call of what is there, if nobody else has done so meanwhile.
func (j *Journal) count(ctx context.Context, there *journal.Intent, calls int64, asked journal.Intent) (bool, error) {
	if !slices.Equal(there.Body, asked.Body) || !slices.Equal(there.Header["Content-Type"], asked.Header["Content-Type"]) {
		return false, journal.ErrOther
	}
	there.Again = calls > 0
	return j.exec(ctx, j.text("update once_intent set calls = calls + 1 where id = ? and calls = ?"), there.ID, calls)
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
