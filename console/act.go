package console

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
)

// action is something that an operator does. It is done twice: first it says what it would do, then a form of that page does it.
type action struct {
	Name  string
	Title string
	Twin  string // the command that does the same
	About string

	prepare func(*request) (plan, error)
	do      func(*request, operate.By) (to string, err error)
}

// plan is what an action would do, for its form.
type plan struct {
	What   string   // it would do
	Button string   // says how many
	Flags  []string // of the command that does the same
	Values [][2]string
	Fields string // of the form, beside the reason: "redrive" or "resolve"
	Call   string // that is decided
	Back   string
}

// actions are all of them.
func actions() []action {
	return []action{
		{"forget", "Forget what is stored", "once keys forget", "Erases the stored answer and request of an operation that has ended. A retry still does not execute.", (*request).planForget, (*request).forget},
		{"resolve", "Decide an unknown outcome", "once keys resolve", "Says what became of a call whose answer was lost. The operation then goes on, or ends.", (*request).planResolve, (*request).resolve},
		{"pause", "Pause", "once outbox pause", "Keeps the messages of a topic back, or of one of its keys.", (*request).planPause, (*request).pause},
		{"resume", "Resume", "once outbox resume", "Ends a pause, and has failed messages tried again at once.", (*request).planResume, (*request).resume},
		{"skip", "Skip a message", "once outbox skip", "Gives a message up that fails. A marker takes its place, and later messages of its key follow.", (*request).planSkip, (*request).skip},
		{"redrive", "Redrive dead letters", "once deadletter redrive", "Has dead letters tried again, at a rate, with one of them first.", (*request).planRedrive, (*request).redrive},
		{"cancel", "Cancel a redrive", "once deadletter redrive --cancel", "Stops a redrive: what was not tried yet waits for a person again.", (*request).planCancel, (*request).cancel},
		{"discard", "Discard dead letters", "once deadletter discard", "Gives dead letters up and erases their payloads.", (*request).planDiscard, (*request).discard},
	}
}

func actionOf(name string) (action, bool) {
	for _, a := range actions() {
		if a.Name == name {
			return a, true
		}
	}
	return action{}, false
}

// confirmBody is the page that asks before something is done.
type confirmBody struct {
	action
	plan

	Command string
	Of      string // the values of the plan, as one that has no control characters
}

func (q *request) confirm() error {
	a, ok := actionOf(q.FormValue("action"))
	if !ok {
		return errNotFound
	}
	if err := q.operator(); err != nil {
		return err
	}
	p, err := a.prepare(q)
	if err != nil {
		return refused(err)
	}
	of := url.Values{}
	for _, v := range p.Values {
		of.Set(v[0], v[1])
	}
	command := strings.Join(append([]string{a.Twin}, p.Flags...), " ") + " --reason WHY --yes"
	return q.render("confirm", a.Title, confirmBody{a, p, command, of.Encode()})
}

func (q *request) do() error {
	if err := q.ParseForm(); err != nil {
		return &refusal{"the form cannot be read, or has more than a megabyte"}
	}
	a, ok := actionOf(q.PostForm.Get("action"))
	if !ok {
		return errNotFound
	}
	if err := q.operator(); err != nil {
		return err
	}
	of, err := url.ParseQuery(q.PostForm.Get("of"))
	if err != nil {
		return errNotFound
	}
	q.Form = q.PostForm // nothing is taken from the address
	for name, values := range of {
		q.Form[name] = values
	}
	by := operate.By{Who: q.user.Name, Reason: strings.TrimSpace(q.PostForm.Get("reason"))}
	if by.Reason == "" {
		return &refusal{"the reason is missing: whoever looks later needs to know why"}
	}
	to, err := a.do(q, by)
	if err != nil {
		return refused(err)
	}
	sep := words.Either(strings.Contains(to, "?"), "&", "?")
	redirect(q.w, to+sep+"done="+a.Name)
	return nil
}

// refused is err as the refusal that it is, unless it comes from the database.
func refused(err error) error {
	var of *store.Error
	kind := store.KindOf(err)
	switch {
	case errors.Is(err, errNotFound), errors.Is(err, errRole), errors.As(err, new(*refusal)):
		return err
	case errors.Is(err, operate.ErrNothing), errors.Is(err, outbox.ErrNotFound), errors.Is(err, deadletter.ErrNoRun), errors.Is(err, deadletter.ErrNotFound):
		return errNotFound
	case kind == store.KindTaken, kind == store.KindMisused, !errors.As(err, &of) && kind == store.KindOther:
		return &refusal{err.Error()}
	}
	return err
}

// quoted is a word of the command that a page shows.
func quoted(s string) string {
	if !printable.Is(s) || words.Shown(s) != s {
		return words.Shown(s) // to read it: a shell would need more
	}
	return words.Quoted(s)
}

// stored returns the operation that the form names.
func (q *request) stored() (operate.KeyView, error) {
	id, ok := q.seal.openOperation(q.FormValue("id"))
	if !ok || !q.sees(id.Scope) {
		return operate.KeyView{}, errNotFound
	}
	v, err := q.Operate.Keys.Show(q.ctx, operate.KeyQuery{Key: id.Key, Scope: id.Scope, Only: true, Attempts: 1})
	if err == nil && !v.Found {
		err = errNotFound
	}
	return v, err
}

func (q *request) planForget() (plan, error) {
	v, err := q.stored()
	if err != nil {
		return plan{}, err
	}
	what, err := q.Operate.Keys.Forget(q.ctx, operate.By{Who: q.user.Name, Reason: "preview"}, operate.ForgetRequest{Scope: v.Scope, Key: v.Key, Preview: true})
	id := q.FormValue("id")
	return plan{
		What: what, Button: "Forget what is stored of 1 operation", Flags: []string{"KEY", "--scope", quoted(v.Scope)},
		Values: [][2]string{{"id", id}}, Back: link("operation", "id", id),
	}, err
}

func (q *request) forget(by operate.By) (string, error) {
	v, err := q.stored()
	if err != nil {
		return "", err
	}
	_, err = q.Operate.Keys.Forget(q.ctx, by, operate.ForgetRequest{Scope: v.Scope, Key: v.Key})
	return link("operation", "id", q.FormValue("id")), err
}

// paused returns the topic that the form names, and the key of a message of it, if that is meant.
func (q *request) paused() (topic, key string, about plan, err error) {
	topic, id := q.FormValue("topic"), q.FormValue("id")
	about = plan{Values: [][2]string{{"topic", topic}, {"id", id}}, Back: "outbox"}
	if id != "" {
		m, err := q.Operate.Outbox.Show(q.ctx, id)
		if m.ID == "" {
			return "", "", about, err
		}
		topic, key, about.Back = m.Topic, m.Key, link("message", "id", id)
	}
	if err := everything(func(*request) error { return nil })(q); err != nil || topic == "" || id != "" && key == "" {
		return "", "", about, errNotFound
	}
	about.What = operate.Pause{Topic: topic, Key: words.Either(key == "", "", "of message "+id)}.String()
	about.Flags = []string{"--topic", quoted(topic)}
	if key != "" {
		about.Flags = append(about.Flags, "--key", "KEY")
	}
	return topic, key, about, nil
}

func (q *request) planPause() (plan, error) {
	_, _, p, err := q.paused()
	p.What, p.Button = "Messages of "+p.What+" wait until it is resumed.", "Pause "+p.What
	return p, err
}

func (q *request) pause(by operate.By) (string, error) {
	topic, key, about, err := q.paused()
	if err != nil {
		return "", err
	}
	return about.Back, q.Operate.Outbox.Pause(q.ctx, by, topic, key)
}

func (q *request) planResume() (plan, error) {
	_, _, p, err := q.paused()
	p.What, p.Button = "A pause of "+p.What+" ends, and its failed messages are tried at once.", "Resume "+p.What
	return p, err
}

func (q *request) resume(by operate.By) (string, error) {
	topic, key, about, err := q.paused()
	if err != nil {
		return "", err
	}
	_, err = q.Operate.Outbox.Resume(q.ctx, by, topic, key)
	return about.Back, err
}

func (q *request) planSkip() (plan, error) {
	id := q.FormValue("id")
	if err := everything(func(*request) error { return nil })(q); err != nil {
		return plan{}, err
	}
	m, err := q.Operate.Outbox.Show(q.ctx, id)
	if m.ID == "" {
		return plan{}, err
	}
	return plan{
		What: "Message " + m.ID + " of the topic " + words.Shown(m.Topic) + " is given up, and never delivered. Its receivers get a marker in its place.", Button: "Skip 1 message",
		Flags: []string{m.ID}, Values: [][2]string{{"id", id}}, Back: link("message", "id", id),
	}, nil
}

func (q *request) skip(by operate.By) (string, error) {
	p, err := q.planSkip()
	if err != nil {
		return "", err
	}
	return p.Back, q.Operate.Outbox.Skip(q.ctx, by, q.FormValue("id"))
}

// matching is the dead letters of a form. They are those of the moment in which the form was made: what dies later is not among them.
func (q *request) matching() (f operate.LetterFilter, p plan, err error) {
	if err := everything(func(*request) error { return nil })(q); err != nil {
		return f, p, err
	}
	f = letterFilter(q.Form)
	f.Window.Limit = 1
	at := q.FormValue("before")
	if at == "" {
		if f.Before, err = q.Operate.Keys.Now(q.ctx); err != nil {
			return f, p, err
		}
		at = f.Before.Format(time.RFC3339Nano)
	} else if f.Before, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return f, p, errNotFound
	}
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
	if err == nil && r.Total == 0 {
		err = &refusal{"no dead letter is left that matches and waits for a person"}
	}
	p.What = matches(r.Total) + " tried again by the processes that handle them."
	if r.Left > 0 {
		p.What += " " + matches(r.Left) + " left out, because they have failed first so long ago that a receiver may have forgotten their IDs."
	}
	p.Button, p.Fields = "Redrive "+many(r.Total)+" matching", "redrive"
	return p, err
}

// matches says how many letters are meant.
func matches(n int64) string {
	if n == 1 {
		return "1 dead letter matches and is"
	}
	return many(n) + " dead letters match and are"
}

func (q *request) redrive(by operate.By) (string, error) {
	if _, err := q.planRedrive(); err != nil { // another operator may have done it
		return "", err
	}
	f, _, err := q.matching()
	if err != nil {
		return "", err
	}
	o := deadletter.RedriveOptions{Canary: q.FormValue("canary") != ""}
	if rate := q.FormValue("rate"); rate != "" {
		if o.Rate, err = strconv.ParseFloat(rate, 64); err != nil {
			return "", &refusal{"the rate is not a number of letters per second"}
		}
	}
	return q.begin(func(ctx context.Context) (operate.Redrive, error) { return q.Operate.Letters.Redrive(ctx, by, f, o) })
}

// begin has a redrive go on when the answer is sent: its first letter may take long, and the others are chosen after that one. If the process
// ends, the command resumes it.
func (q *request) begin(redrive func(context.Context) (operate.Redrive, error)) (string, error) {
	type outcome struct {
		r   operate.Redrive
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(q.ctx), canaryTime)
		defer cancel()
		r, err := redrive(ctx)
		done <- outcome{r, err}
	}()
	enough := time.NewTimer(readTime)
	defer enough.Stop()
	select {
	case o := <-done:
		return link("redrive", "uid", o.r.UID), o.err
	case <-enough.C:
		return "deadletters", nil
	}
}

// canaryTime is how long the first letter of a redrive is waited for.
const canaryTime = time.Hour

func (q *request) planDiscard() (plan, error) {
	f, p, err := q.matching()
	if err != nil {
		return p, err
	}
	if len(p.Values) == 1 { // a link that has lost its filter does not mean all
		return p, &refusal{"which dead letters? Choose a cause, or one letter"}
	}
	n, err := q.Operate.Letters.Count(q.ctx, f)
	if err == nil && n == 0 {
		err = &refusal{"no dead letter is left that matches"}
	}
	p.What, p.Button = matches(n)+" given up: never handled, and their payloads are erased.", "Discard "+many(n)+" matching"
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
		What: many(r.Waiting) + " letters that were not tried yet wait for a person again.", Button: "Cancel this redrive",
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

func (q *request) help() error { return q.render("help", "What the words mean", actions()) }
