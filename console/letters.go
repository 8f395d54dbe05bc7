package console

import (
	"errors"
	"net/url"
	"slices"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/operate"
)

// mostLetters is the number of letters that are grouped by cause; the oldest letters are read.
const mostLetters = 5000

// causeRow is a group of letters with the same cause.
type causeRow struct {
	operate.LetterCause

	Filter string // the filter that matches these letters, as the query of a link
}

// causesBody is the dead letters by cause, and the redrives.
type causesBody struct {
	Rows     []causeRow
	Redrives []operate.Redrive
	Cut      bool
	Most     int
}

func (q *request) causes() error {
	list, err := q.Operate.Letters.Causes(q.ctx, operate.LetterFilter{Filter: deadletter.Filter{Most: mostLetters}})
	if err != nil {
		return err
	}
	body := causesBody{Most: mostLetters}
	read := int64(0)
	for _, c := range list {
		read += c.Letters
		body.Rows = append(body.Rows, causeRow{c, link("", "origin", c.Origin, "consumer", c.Consumer, "topic", c.Topic, "class", c.Class, "cause", c.Cause)})
	}
	// Causes returns one page, and does not say whether more causes exist. So both limits are checked here.
	body.Cut = read >= mostLetters || len(list) >= operate.DefaultLimit
	running, err := q.Operate.Letters.Redrives(q.ctx)
	if err != nil {
		return err
	}
	for _, r := range running[:min(len(running), mostRedrives)] {
		if r, err = q.Operate.Letters.Progress(q.ctx, r.UID); err != nil {
			return err
		}
		body.Redrives = append(body.Redrives, r)
	}
	return q.render("causes", "Dead letters", body)
}

// mostRedrives is how many running redrives the page shows.
const mostRedrives = 10

// progress shows the progress of a redrive, even after it has chosen all of its letters.
func (q *request) progress() error {
	r, err := q.Operate.Letters.Progress(q.ctx, q.FormValue("uid"))
	if errors.Is(err, deadletter.ErrNoRun) {
		return errNotFound
	}
	if err != nil {
		return err
	}
	return q.render("redrive", "Redrive", r)
}

// letterFilter returns the filter in the query of a link.
func letterFilter(form url.Values) operate.LetterFilter {
	return operate.LetterFilter{Filter: deadletter.Filter{
		UID: form.Get("uid"), Origin: form.Get("origin"), Consumer: form.Get("consumer"), Topic: form.Get("topic"), Class: form.Get("class"), Cause: form.Get("cause"),
	}}
}

var letterStates = []deadletter.State{deadletter.StateDead, deadletter.StateApplied, deadletter.StateStale, deadletter.StateDiscarded}

// lettersBody is a page of letters.
type lettersBody struct {
	Rows   []operate.Letter
	Filter deadletter.Filter
	States []letterState
	Cut    bool
	Most   int
	Next   string
}

// letterState is a link to the letters that match the same filter in another state.
type letterState struct {
	Name, Link string
	Current    bool
}

func (q *request) letters() error {
	form := q.URL.Query()
	f := letterFilter(form)
	f.State, f.Window.After, f.Most = deadletter.State(form.Get("state")), form.Get("after"), mostRead
	if f.State == "" {
		f.State = deadletter.StateDead
	}
	if !slices.Contains(letterStates, f.State) {
		return errNotFound
	}
	p, err := q.Operate.Letters.List(q.ctx, f)
	if err != nil {
		return err
	}
	body := lettersBody{Rows: p.Items, Filter: f.Filter, Cut: p.Cut, Most: mostRead}
	in := func(state deadletter.State, after string) string {
		return link("letters", "state", string(state), "after", after, "uid", f.UID, "origin", f.Origin, "consumer", f.Consumer, "topic", f.Topic, "class", f.Class, "cause", f.Cause)
	}
	for _, state := range letterStates {
		body.States = append(body.States, letterState{string(state), in(state, ""), state == f.State})
	}
	if p.Next != "" {
		body.Next = in(f.State, p.Next)
	}
	return q.render("letters", "Letters", body)
}

// letterBody is one letter.
type letterBody struct {
	operate.Letter

	Unreadable string
	IsDead     bool
}

func (q *request) letter() error {
	l, err := q.Operate.Letters.Show(q.ctx, q.FormValue("id"))
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		return errNotFound
	// If the letter has a UID, only its payload could not be decrypted. The rest of the page is shown.
	case err != nil && l.UID == "":
		return err
	}
	body := letterBody{Letter: l, IsDead: l.State == deadletter.StateDead}
	if err != nil {
		body.Unreadable = err.Error()
	}
	if !q.seen {
		body.Letter = l.WithoutBody()
	}
	return q.render("letter", "Letter", body)
}
