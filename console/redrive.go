package console

import (
	"context"
	"strconv"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

// matching returns the dead letters that match a form. Letters that are younger than the form do not match.
func (q *request) matching() (f operate.LetterFilter, p plan, err error) {
	if err := everything(func(*request) error { return nil })(q); err != nil {
		return f, p, err
	}
	f = letterFilter(q.Form)
	f.Window.Limit, f.Most = 1, mostMatching
	at := q.FormValue("before")
	if at == "" {
		if f.Before, err = q.Operate.Keys.Now(q.ctx); err != nil {
			return f, p, err
		}
		at = f.Before.Format(time.RFC3339Nano)
	} else if f.Before, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return f, p, errNotFound
	}
	// The form contains the time, so that the preview and the redrive have the same letters.
	p.Values = [][2]string{{"before", at}}
	for _, c := range [][2]string{{"uid", f.UID}, {"origin", f.Origin}, {"consumer", f.Consumer}, {"topic", f.Topic}, {"class", f.Class}, {"cause", f.Cause}} {
		switch {
		case c[1] == "":
			continue
		case c[0] == "uid":
			p.Flags = append(p.Flags, quoted(c[1]))
		default:
			p.Flags = append(p.Flags, "--"+c[0], quoted(c[1]))
		}
		p.Values = append(p.Values, c)
	}
	p.Flags = append(p.Flags, "--before", at)
	p.Back = "deadletters"
	return f, p, nil
}

func (q *request) planRedrive() (plan, error) {
	f, p, err := q.matching()
	if err != nil {
		return p, err
	}
	r, err := q.Operate.Letters.Redrive(q.ctx, operate.By{}, f, deadletter.RedriveOptions{DryRun: true})
	// If More is true, other letters may match that were not counted.
	if err == nil && r.Total == 0 && !r.More {
		err = &refusal{"no matching dead letter waits for an operator now"}
	}
	p.What = matches(r.Total, r.More) + " tried again by running inboxes and relays."
	if r.Left > 0 {
		p.What += " " + matches(r.Left, r.More) + " left out, because these messages are so old that receivers may have forgotten their IDs."
	}
	p.What += counted(r.More)
	p.Button, p.Fields = "Redrive "+atLeast(r.Total, r.More)+" matching", "redrive"
	return p, err
}

// mostMatching is how many dead letters a form reads to count the matching ones. The button applies to all matching letters.
const mostMatching = 10_000

// matches returns the number of matching letters as the beginning of a sentence.
func matches(n int64, more bool) string {
	if n == 1 && !more {
		return "1 dead letter matches and is"
	}
	return atLeast(n, more) + " dead letters match and are"
}

// atLeast returns a number as a text. If more is true, the text says that the real number may be greater.
func atLeast(n int64, more bool) string {
	return many(n) + words.Either(more, " or more", "")
}

// counted returns a sentence which says that some letters were not counted, or "".
func counted(more bool) string {
	return words.Either(more, " Only the oldest "+many(mostMatching)+" dead letters are counted here. The redrive applies to all matching letters, also to the ones that are not counted.", "")
}

func (q *request) redrive(by operate.By) (string, error) {
	if _, err := q.planRedrive(); err != nil { // another operator may have redriven the letters meanwhile
		return "", err
	}
	f, _, err := q.matching()
	if err != nil {
		return "", err
	}
	o := deadletter.RedriveOptions{Canary: q.FormValue("canary") != ""}
	if rate := q.FormValue("rate"); rate != "" {
		if o.Rate, err = strconv.ParseFloat(rate, 64); err != nil {
			return "", &refusal{"the rate is not a number. Try: a number of dead letters per second, such as 10"}
		}
	}
	return q.begin(func(ctx context.Context) (operate.Redrive, error) { return q.Operate.Letters.Redrive(ctx, by, f, o) })
}

// begin starts a redrive, and lets it continue in the background after the answer. The first letter may take long, and the other letters are chosen
// after it. If the process ends, the command once can continue the redrive.
func (q *request) begin(redrive func(context.Context) (operate.Redrive, error)) (string, error) {
	var r operate.Redrive
	ended, err := q.goOn(func(ctx context.Context) (err error) {
		r, err = redrive(ctx)
		return err
	})
	if !ended {
		return "deadletters", nil
	}
	return link("redrive", "uid", r.UID), err
}

func (q *request) planDiscard() (plan, error) {
	f, p, err := q.matching()
	if err != nil {
		return p, err
	}
	if len(p.Values) == 1 { // a link that has lost its filter must not choose all letters
		return p, &refusal{"no dead letter is chosen. Try: choose a cause, or one dead letter"}
	}
	n, more, err := q.Operate.Letters.Count(q.ctx, f)
	if err == nil && n == 0 && !more {
		err = &refusal{"no dead letter matches now"}
	}
	p.What, p.Button = matches(n, more)+" discarded: no process handles the messages, and their payloads are erased."+counted(more), "Discard "+atLeast(n, more)+" matching"
	return p, err
}

func (q *request) discard(by operate.By) (string, error) {
	if _, err := q.planDiscard(); err != nil {
		return "", err
	}
	f, _, err := q.matching()
	if err != nil {
		return "", err
	}
	_, err = q.Operate.Letters.Discard(q.ctx, by, f)
	return "deadletters", err
}

func (q *request) planCancel() (plan, error) {
	if err := everything(func(*request) error { return nil })(q); err != nil {
		return plan{}, err
	}
	uid := q.FormValue("uid")
	r, err := q.Operate.Letters.Progress(q.ctx, uid)
	return plan{
		What: many(r.Waiting) + " letters that were not tried yet wait for an operator again.", Button: "Cancel this redrive",
		Flags: []string{uid}, Values: [][2]string{{"uid", uid}}, Back: link("redrive", "uid", uid),
	}, err
}

func (q *request) cancel(by operate.By) (string, error) {
	p, err := q.planCancel()
	if err != nil {
		return "", err
	}
	_, err = q.Operate.Letters.Cancel(q.ctx, by, q.FormValue("uid"))
	return p.Back, err
}
