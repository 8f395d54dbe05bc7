package operate

import (
	"context"

	"github.com/oncelib/once/deadletter"
)

// Letters gives access to the dead letters of a database: messages whose delivery was given up.
type Letters struct{ letters *deadletter.Letters }

// LetterFilter chooses dead letters. The zero value of LetterFilter chooses all dead letters.
type LetterFilter struct {
	Window
	deadletter.Filter // the fields After and Limit of the Window replace the fields After and Limit of the Filter
}

func (f LetterFilter) asked() deadletter.Filter {
	f.Filter.After, f.Filter.Limit = f.Window.After, f.limit()
	return f.Filter
}

// List returns the dead letters that match f, the oldest first, without their payloads and headers.
func (l *Letters) List(ctx context.Context, f LetterFilter) (Page[Letter], error) {
	list, next, err := l.letters.List(ctx, f.asked())
	return Page[Letter]{Items: convert(list, letterOf), Next: next, Cut: next != "" && len(list) < f.limit()}, err //nolint:wrapcheck // it is of package deadletter
}

// Causes groups the dead letters that match f by their cause, and returns the most frequent cause first.
func (l *Letters) Causes(ctx context.Context, f LetterFilter) ([]LetterCause, error) {
	list, err := l.letters.Groups(ctx, f.asked())
	return convert(list, causeOf), err //nolint:wrapcheck // likewise
}

// Count returns the number of dead letters that match f. If the result more is true, Count has stopped at f.Most, and more dead letters may match f.
func (l *Letters) Count(ctx context.Context, f LetterFilter) (n int64, more bool, err error) {
	return l.letters.Count(ctx, f.asked()) //nolint:wrapcheck // likewise
}

// Show returns a dead letter with its payload and headers, and each failed delivery of its message. If the payload and the headers cannot be
// decrypted, Show returns the dead letter without payload and headers, together with an error.
func (l *Letters) Show(ctx context.Context, uid string) (Letter, error) {
	found, attempts, err := l.letters.Show(ctx, uid)
	shown := letterOf(found)
	for _, a := range attempts {
		shown.Failures = append(shown.Failures, LetterFailure{a.Number, utc(a.At), a.Node, a.Error, a.Trace})
	}
	return shown, err //nolint:wrapcheck // likewise
}

// Redrive makes the dead letters that match f due again, so that they are delivered again. The fields Who and Reason of o are
// ignored: Redrive uses the fields of by.
func (l *Letters) Redrive(ctx context.Context, by By, f LetterFilter, o deadletter.RedriveOptions) (Redrive, error) {
	// A preview changes nothing, so it needs no name and no reason.
	if err := by.check(); err != nil && !o.DryRun {
		return Redrive{}, err
	}
	o.Who, o.Reason = by.Who, by.Reason
	r, err := l.letters.Redrive(ctx, f.asked(), o)
	return redriveOf(r), err //nolint:wrapcheck // likewise
}

// Redrives returns the redrives (new deliveries of chosen dead letters) that have not ended.
func (l *Letters) Redrives(ctx context.Context) ([]Redrive, error) {
	list, err := l.letters.Redrives(ctx)
	return convert(list, redriveOf), err //nolint:wrapcheck // likewise
}

// Continue chooses the remaining dead letters of a redrive (a new delivery of chosen dead letters). Call Continue if a process was killed while it
// chose the dead letters of the redrive.
func (l *Letters) Continue(ctx context.Context, uid string) (Redrive, error) {
	r, err := l.letters.Resume(ctx, uid)
	return redriveOf(r), err //nolint:wrapcheck // likewise
}

// Progress returns the redrive (the new delivery of chosen dead letters) with this UID, and its progress.
func (l *Letters) Progress(ctx context.Context, uid string) (Redrive, error) {
	r, err := l.letters.Progress(ctx, uid)
	return redriveOf(r), err //nolint:wrapcheck // likewise
}

// Cancel ends a redrive (a new delivery of chosen dead letters). The chosen letters that were not tried yet become dead letters again.
func (l *Letters) Cancel(ctx context.Context, by By, uid string) (Redrive, error) {
	if err := by.check(); err != nil {
		return Redrive{}, err
	}
	r, err := l.letters.Cancel(ctx, uid, by.Who, by.Reason)
	return redriveOf(r), err //nolint:wrapcheck // likewise
}

// Discard gives up the dead letters that match f for good, so that later messages with the same ordering keys are delivered. Discard returns
// the number of discarded dead letters.
func (l *Letters) Discard(ctx context.Context, by By, f LetterFilter) (int64, error) {
	if err := by.check(); err != nil {
		return 0, err
	}
	return l.letters.Discard(ctx, f.asked(), by.Who, by.Reason) //nolint:wrapcheck // likewise
}
