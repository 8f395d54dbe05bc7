package console

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/webhook"
)

// action is a change that an operator can make, in two steps. The first page says what the change would do. The form on this page makes the change.
type action struct {
	Name  string
	Title string
	Twin  string // the command that makes the same change
	About string

	prepare func(*request) (plan, error)
	do      func(*request, operate.By) (to string, err error)
}

// plan describes the effect of an action, for its form.
type plan struct {
	What   string   // what the action would do
	Button string   // the text of the button, with the number of affected items
	Flags  []string // the options of the command
	Values [][2]string
	Fields string // the kind of form, in addition to the reason: "redrive", "resolve", "recover" or "force"
	Call   string // the call that the decision is about
	Back   string
}

// actions returns all actions.
func actions() []action {
	return slices.Concat([]action{
		{"forget", "Forget the stored data", "once keys forget", "Erases the stored answer and request of an operation that has ended. After that, a retry still does not execute the operation.", (*request).planForget, (*request).forget},
		{"resolve", "Decide an unknown outcome", "once keys resolve", "Records whether a call to another service took effect, if the answer to the call was lost. Then the operation continues or ends.", (*request).planResolve, (*request).resolve},
		{"pause", "Pause", "once outbox pause", "Stops the delivery of the messages of a topic, or of one key of a topic, until an operator resumes the topic or the key.", (*request).planPause, (*request).pause},
		{"resume", "Resume", "once outbox resume", "Ends a pause. Relays then try the failed messages again at once.", (*request).planResume, (*request).resume},
		{"skip", "Skip a message", "once outbox skip", "Gives up a message whose delivery fails. A relay delivers a marker in place of the message, and then delivers the later messages of the key.", (*request).planSkip, (*request).skip},
		{"resend", "Send a delivered message again", "once outbox resend", "Delivers a kept message again. The message has the same ID as before, so a receiver that has applied the message treats it as a duplicate.", (*request).planResend, (*request).resend},
		{"redrive", "Redrive dead letters", "once deadletter redrive", "Tries dead letters again. You can choose a rate, and let one dead letter go first.", (*request).planRedrive, (*request).redrive},
		{"cancel", "Cancel a redrive", "once deadletter redrive --cancel", "Stops a redrive. The dead letters that were not tried yet wait for an operator again.", (*request).planCancel, (*request).cancel},
		{"discard", "Discard dead letters", "once deadletter discard", "Discards dead letters and erases their payloads.", (*request).planDiscard, (*request).discard},
		{"inbox-skip", "Skip a message of an inbox", "once inbox skip", "Gives up the message for which a key of an inbox waits. Then the inbox applies the later messages of the key.", (*request).planInboxSkip, (*request).inboxSkip},
		{"start-at", "Begin a key of an inbox", "once inbox start-at", "Makes a key of an inbox begin at a chosen message. Earlier messages count as duplicates, and the inbox deletes earlier messages that are parked.", (*request).planStartAt, (*request).startAt},
	}, webhookActions(), sagaActions())
}

func actionOf(name string) (action, bool) {
	for _, a := range actions() {
		if a.Name == name {
			return a, true
		}
	}
	return action{}, false
}

// confirmBody is the page that asks for a confirmation.
type confirmBody struct {
	action
	plan

	Command string
	Of      string // the values of the plan in one text without control characters
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
	a, ok := actionOf(q.PostForm.Get("action"))
	if !ok {
		return errNotFound
	}
	if err := q.operator(); err != nil {
		return err
	}
	// The values are encoded in one field, because a browser changes the line breaks in the fields of a form.
	of, err := url.ParseQuery(q.PostForm.Get("of"))
	if err != nil {
		return errNotFound
	}
	q.Form = q.PostForm // values in the URL are ignored, so that a link cannot change the values that the form has shown
	maps.Copy(q.Form, of)
	by := operate.By{Who: q.user.Name, Reason: strings.TrimSpace(q.PostForm.Get("reason"))}
	if by.Reason == "" {
		return &refusal{"the reason is missing. Try: type a reason, which the console writes to the audit"}
	}
	to, err := a.do(q, by)
	if err != nil {
		return refused(err)
	}
	sep := words.Either(strings.Contains(to, "?"), "&", "?")
	redirect(q.w, to+sep+"done="+a.Name)
	return nil
}

// refused returns err as a refusal, unless err comes from the database.
func refused(err error) error {
	var of *store.Error
	kind := store.KindOf(err)
	switch {
	case errors.Is(err, errNotFound), errors.Is(err, errRole), errors.As(err, new(*refusal)):
		return err
	case errors.Is(err, operate.ErrNothing), errors.Is(err, outbox.ErrNotFound), errors.Is(err, deadletter.ErrNoRun), errors.Is(err, deadletter.ErrNotFound),
		errors.Is(err, webhook.ErrNotFound), errors.Is(err, saga.ErrNothing):
		return errNotFound
	// These errors come from rules and not from the database. Their texts tell an operator what to do.
	case kind == store.KindTaken, kind == store.KindMisused, !errors.As(err, &of) && kind == store.KindOther:
		return &refusal{err.Error()}
	}
	return err
}

// quoted returns a word of the command in the form in which a page shows it.
func quoted(s string) string {
	if !printable.Is(s) || words.Shown(s) != s {
		return words.Shown(s) // only for reading, because a shell would need other quotes
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
	// The preview makes the change and rolls it back. So the page shows exactly what the form will change.
	what, err := q.Operate.Keys.Forget(q.ctx, operate.By{Who: q.user.Name, Reason: "preview"}, operate.ForgetRequest{Scope: v.Scope, Key: v.Key, Preview: true})
	id := q.FormValue("id")
	return plan{
		What: what, Button: "Forget the stored data of 1 operation", Flags: []string{"KEY", "--scope", quoted(v.Scope)},
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

// paused returns the topic that the form names. If the form names a message, paused also returns the ordering key of this message.
func (q *request) paused() (topic, key string, about plan, err error) {
	topic, id := q.FormValue("topic"), q.FormValue("id")
	about = plan{Values: [][2]string{{"topic", topic}, {"id", id}}, Back: "outbox"}
	if id != "" {
		m, err := q.Operate.Outbox.Show(q.ctx, id)
		// The error is ignored here: a message whose payload cannot be decrypted can be paused too.
		if m.ID == "" {
			return "", "", about, err
		}
		topic, key, about.Back = m.Topic, m.Key, link("message", "id", id)
	}
	// A message without an ordering key holds back no other message, so only its topic can be paused.
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
	p.What, p.Button = "The messages of "+p.What+" wait until an operator ends the pause.", "Pause "+p.What
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
	p.What, p.Button = "The pause of "+p.What+" ends, and relays try its failed messages at once.", "Resume "+p.What
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
		What: "Message " + m.ID + " of the topic " + words.Shown(m.Topic) + " is given up. Relays never deliver the message; receivers get a marker in its place.", Button: "Skip 1 message",
		Flags: []string{m.ID}, Values: [][2]string{{"id", id}}, Back: link("message", "id", id),
	}, nil
}

func (q *request) skip(by operate.By) (string, error) {
	// The plan is made again, because another operator may have skipped the message after the page was shown.
	p, err := q.planSkip()
	if err != nil {
		return "", err
	}
	return p.Back, q.Operate.Outbox.Skip(q.ctx, by, q.FormValue("id"))
}

func (q *request) planResend() (plan, error) {
	id := q.FormValue("id")
	if err := everything(func(*request) error { return nil })(q); err != nil {
		return plan{}, err
	}
	m, err := q.Operate.Outbox.Show(q.ctx, id)
	switch {
	case m.ID == "":
		return plan{}, err
	case m.State != outbox.StateDelivered:
		return plan{}, &refusal{"the message was not delivered yet; a relay will deliver it"}
	}
	return plan{
		What: "Message " + m.ID + " of the topic " + words.Shown(m.Topic) + " is delivered again, with the same ID and content.", Button: "Send 1 message again",
		Flags: []string{m.ID}, Values: [][2]string{{"id", id}}, Back: link("message", "id", id),
	}, nil
}

func (q *request) resend(by operate.By) (string, error) {
	p, err := q.planResend()
	if err != nil {
		return "", err
	}
	return p.Back, q.Operate.Outbox.Resend(q.ctx, by, q.FormValue("id"))
}

func (q *request) help() error { return q.render("help", "The words and the actions", actions()) }
