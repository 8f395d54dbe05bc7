package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Begin implements [Journal]. The intent is committed when Begin returns without an error.
func (t *Table) Begin(ctx context.Context, in Intent) (Intent, error) {
	if in.ID != "" {
		return t.again(ctx, in)
	}
	mine := in
	args, err := t.fields(&mine, 1)
	if err != nil {
		return in, err
	}
	got, err := t.begin(ctx, mine, args)
	switch {
	case errors.Is(err, ErrMismatch):
		return in, err
	case err != nil: // the row may be in the table in spite of the error
		err = fmt.Errorf("journal: the intent could not be stored, so its request was not sent: %w. Try: check that the database is running, and that its tables are migrated", err)
		return in, errors.Join(err, t.withdraw(ctx, mine.ID))
	}
	return got, nil
}

// begin stores mine. If the intent already exists, begin counts one more call of it.
func (t *Table) begin(ctx context.Context, mine Intent, args []any) (Intent, error) {
	for ctx.Err() == nil {
		added, err := t.exec(ctx, t.insert, args...)
		switch {
		case err != nil:
			return mine, err
		case added && t.counts:
			return mine, nil
		}
		there, calls, err := t.read(ctx, " where name = ?", args[0])
		switch {
		case err != nil:
			return mine, err
		case len(there) == 0: // another process has closed the intent meanwhile
			continue
		case there[0].ID == mine.ID:
			return mine, nil
		}
		if counted, err := t.count(ctx, &there[0], calls[0], mine); err != nil || counted {
			return there[0], err
		}
	}
	return mine, context.Cause(ctx)
}

// again counts one more call of an intent, if the intent is open.
func (t *Table) again(ctx context.Context, in Intent) (Intent, error) {
	for ctx.Err() == nil {
		there, calls, err := t.read(ctx, " where id = ?", in.ID)
		if err != nil {
			return in, fmt.Errorf("journal: %w", err)
		}
		if len(there) == 0 {
			return in, ErrGone
		}
		if counted, err := t.count(ctx, &there[0], calls[0], in); err != nil || counted {
			return there[0], err
		}
	}
	return in, context.Cause(ctx)
}

// count counts one more call of an intent. It returns false if another process has counted a call since the read.
func (t *Table) count(ctx context.Context, there *Intent, calls int64, asked Intent) (bool, error) {
	if !slices.Equal(there.Body, asked.Body) || !slices.Equal(there.Header["Content-Type"], asked.Header["Content-Type"]) {
		return false, ErrMismatch
	}
	there.Again = calls > 0
	// If another process has begun or closed the intent since the read, no row matches, and the caller reads again.
	return t.exec(ctx, "update once_intent set calls = calls + 1 where id = ? and calls = ?", there.ID, calls)
}

// withdraw deletes an intent that may have been stored although Begin returns an error. If another call has begun the intent meanwhile, the intent
// stays.
func (t *Table) withdraw(ctx context.Context, id string) error {
	// The caller may have given up, and an intent without a request must not stay.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := t.exec(ctx, "delete from once_intent where id = ? and calls = 1", id); err != nil {
		return fmt.Errorf("journal: the intent was perhaps stored, and Resume will then send its request: %w", err)
	}
	return nil
}
