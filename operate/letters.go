package operate

import (
	"context"

	"github.com/oncelib/once/deadletter"
)

// Letters are the messages that were given up.
type Letters struct{ letters *deadletter.Letters }

// LetterFilter chooses letters. The zero value means all dead letters.
type LetterFilter struct {
	Window
	deadletter.Filter // its After and Limit are not read
}

func (f LetterFilter) asked() deadletter.Filter {
	f.Filter.After, f.Filter.Limit = f.Window.After, f.limit()
	return f.Filter
}

// List returns letters, the oldest first, without their payloads and headers.
func (l *Letters) List(ctx context.Context, f LetterFilter) (Page[Letter], error) {
	list, next, err := l.letters.List(ctx, f.asked())
	return Page[Letter]{Items: convert(list, letterOf), Next: next, Cut: next != "" && len(list) < f.limit()}, err //nolint:wrapcheck // it is of package deadletter
}

// Causes returns groups of letters with the same cause, the most frequent cause first.
func (l *Letters) Causes(ctx context.Context, f LetterFilter) ([]LetterCause, error) {
	list, err := l.letters.Groups(ctx, f.asked())
	return convert(list, causeOf), err //nolint:wrapcheck // likewise
}

// Count returns the number of chosen letters. more says that f.Most has ended the count: more may exist.
func (l *Letters) Count(ctx context.Context, f LetterFilter) (n int64, more bool, err error) {
	return l.letters.Count(ctx, f.asked()) //nolint:wrapcheck // likewise
}

// Show returns a letter, and each failed delivery of its message. If its payload and headers cannot be decrypted, Show returns an error together with
// the letter without them.
func (l *Letters) Show(ctx context.Context, uid string) (Letter, error) {
	found, attempts, err := l.letters.Show(ctx, uid)
	shown := letterOf(found)
	for _, a := range attempts {
		shown.Failures = append(shown.Failures, LetterFailure{a.Number, utc(a.At), a.Node, a.Error, a.Trace})
	}
	return shown, err //nolint:wrapcheck // likewise
}

// Redrive makes letters due again. Who and Reason are taken from by, and ignored in o.
func (l *Letters) Redrive(ctx context.Context, by By, f LetterFilter, o deadletter.RedriveOptions) (Redrive, error) {
	if err := by.check(); err != nil && !o.DryRun {
		return Redrive{}, err
	}
	o.Who, o.Reason = by.Who, by.Reason
	r, err := l.letters.Redrive(ctx, f.asked(), o)
	return redriveOf(r), err //nolint:wrapcheck // likewise
}

// Redrives returns the redrives that are not complete.
func (l *Letters) Redrives(ctx context.Context) ([]Redrive, error) {
	list, err := l.letters.Redrives(ctx)
	return convert(list, redriveOf), err //nolint:wrapcheck // likewise
}

// Continue goes on with a redrive that was killed.
func (l *Letters) Continue(ctx context.Context, uid string) (Redrive, error) {
	r, err := l.letters.Resume(ctx, uid)
	return redriveOf(r), err //nolint:wrapcheck // likewise
}

// Progress returns the progress of a redrive.
func (l *Letters) Progress(ctx context.Context, uid string) (Redrive, error) {
	r, err := l.letters.Progress(ctx, uid)
	return redriveOf(r), err //nolint:wrapcheck // likewise
}

// Cancel ends a redrive: letters that were not tried yet wait for a person again.
func (l *Letters) Cancel(ctx context.Context, by By, uid string) (Redrive, error) {
	if err := by.check(); err != nil {
		return Redrive{}, err
	}
	r, err := l.letters.Cancel(ctx, uid, by.Who, by.Reason)
	return redriveOf(r), err //nolint:wrapcheck // likewise
}

// Discard gives letters up, so that their keys go on.
func (l *Letters) Discard(ctx context.Context, by By, f LetterFilter) (int64, error) {
	if err := by.check(); err != nil {
		return 0, err
	}
	return l.letters.Discard(ctx, f.asked(), by.Who, by.Reason) //nolint:wrapcheck // likewise
}
