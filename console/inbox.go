package console

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/operate"
)

// These are the largest numbers of rows that the pages of inboxes read.
const (
	mostInboxes = 20  // inboxes of one page
	mostWaiting = 40  // keys of each inbox on this page
	mostGaps    = 500 // keys on the page of one inbox
)

// inboxesBody is a page of inboxes.
type inboxesBody struct {
	Rows []operate.InboxSummary
	Next string
	Try  string // the command that creates the tables, if they do not exist
}

func (q *request) inboxes() error {
	p, err := q.Operate.Inbox.Summaries(q.ctx, operate.Window{After: q.URL.Query().Get("after"), Limit: mostInboxes}, mostWaiting)
	body := inboxesBody{Rows: p.Items}
	switch {
	// A database without an inbox is not an error: another database of the service may have the inbox.
	case sqlguard.IsMissing(err):
		body.Try = "once migrate up --only " + inbox.Migrations.Capability
	case err != nil:
		return err
	}
	if p.Next != "" {
		body.Next = link("inboxes", "after", p.Next)
	}
	return q.render("inboxes", "Inboxes", body)
}

// gapRow is a key that waits for a message.
type gapRow struct {
	operate.Gap

	Link string
}

// inboxBody is an inbox, with the keys that wait.
type inboxBody struct {
	Consumer string
	Rows     []gapRow
	Cut      bool
	Most     int
	Next     string
}

func (q *request) inbox() error {
	form := q.URL.Query()
	consumer := form.Get("consumer")
	p, err := q.Operate.Inbox.List(q.ctx, operate.GapFilter{Consumer: consumer, Most: mostGaps, Window: operate.Window{After: form.Get("after")}})
	if err != nil {
		return notOurs(err)
	}
	body := inboxBody{Consumer: consumer, Cut: p.Cut, Most: mostGaps}
	for _, g := range p.Items {
		body.Rows = append(body.Rows, gapRow{g, link("place", "id", q.seal.place(messageOf(g)))})
	}
	if p.Next != "" {
		body.Next = link("inbox", "consumer", consumer, "after", p.Next)
	}
	return q.render("inbox", "Inbox", body)
}

func messageOf(g operate.Gap) operate.InboxMessage {
	return operate.InboxMessage{Consumer: g.Consumer, Source: g.Source, Topic: g.Topic, Key: g.Key}
}

// notOurs returns err if it comes from the database. Any other error means that the address names something that cannot exist, so notOurs returns
// errNotFound.
func notOurs(err error) error {
	if refused(err) != err { //nolint:errorlint // only an identical error was left unchanged
		return errNotFound
	}
	return err
}

// placeBody is a key of an inbox: its position, the message that it waits for, and its parked messages.
type placeBody struct {
	operate.InboxMessage // Seq is the number of the missing message
	inbox.Place

	ID   string // the ID in its link
	Hash string // the hash of the key, as in logs
	Rows []parkedRow
	Next string
}

// parkedRow is a message that waits.
type parkedRow struct {
	operate.ParkedMessage

	Begin string // the link of the form that makes the key begin at this message
}

// place shows a key of an inbox.
func (q *request) place() error {
	m, p, err := q.placed()
	if err != nil {
		return err
	}
	id := q.FormValue("id")
	body := placeBody{InboxMessage: m, Place: p, ID: id, Hash: keyname.Hash(m.Key)}
	parked, err := q.Operate.Inbox.Parked(q.ctx, m, operate.Window{After: q.URL.Query().Get("after")})
	if err != nil {
		return notOurs(err)
	}
	for _, one := range parked.Items {
		row := parkedRow{ParkedMessage: one}
		// A key can only be moved forward. If it were moved back, messages would be applied twice.
		if one.Seq > m.Seq {
			row.Begin = link("do", "action", "start-at", "id", id, "seq", strconv.FormatInt(one.Seq, 10))
		}
		body.Rows = append(body.Rows, row)
	}
	if parked.Next != "" {
		body.Next = link("place", "id", id, "after", parked.Next)
	}
	return q.render("place", "Key of an inbox", body)
}

// placed returns the key that a link or a form names, and the message for which it waits.
func (q *request) placed() (m operate.InboxMessage, p inbox.Place, err error) {
	m, ok := q.seal.openPlace(q.FormValue("id"))
	if !ok {
		return m, p, errNotFound
	}
	// A key without a position waits for number 1. The position of any other key is read again below.
	m.Seq = 1
	if p, err = q.Operate.Inbox.Place(q.ctx, m); err != nil {
		return m, p, notOurs(err)
	}
	if !p.Known {
		return m, p, errNotFound
	}
	if m.Seq = p.Seq + 1; m.Seq != 1 {
		p, err = q.Operate.Inbox.Place(q.ctx, m)
	}
	return m, p, err
}

// place encrypts a key of an inbox for a link.
func (s sealer) place(m operate.InboxMessage) string {
	text, err := json.Marshal([4]string{m.Consumer, m.Source, m.Topic, m.Key})
	if err != nil {
		panic(err) // impossible, because the value has only strings
	}
	return s.seal(sealedPlace, string(text))
}

func (s sealer) openPlace(sealed string) (m operate.InboxMessage, ok bool) {
	var of [4]string
	text, ok := s.open(sealedPlace, sealed)
	if !ok || json.Unmarshal([]byte(text), &of) != nil {
		return m, false
	}
	return operate.InboxMessage{Consumer: of[0], Source: of[1], Topic: of[2], Key: of[3]}, true
}

// changed returns the key that a form names, with the number of a message, and the options of the command.
func (q *request) changed(seq int64) (m operate.InboxMessage, about plan, err error) {
	m, _, err = q.placed()
	if seq == 0 {
		seq = m.Seq
	}
	m.Seq = seq
	id := q.FormValue("id")
	about = plan{
		Flags:  []string{"--consumer", quoted(m.Consumer), "--source", quoted(m.Source), "--topic", quoted(m.Topic), "--key", "KEY", "--seq", strconv.FormatInt(seq, 10)},
		Values: [][2]string{{"id", id}, {"seq", strconv.FormatInt(seq, 10)}},
		Back:   link("place", "id", id),
	}
	return m, about, err
}

// number returns the number of a message in a form, or 0 if the form has none.
func (q *request) number() (int64, error) {
	if err := everything(func(*request) error { return nil })(q); err != nil {
		return 0, err
	}
	text := q.FormValue("seq")
	if text == "" {
		return 0, nil
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 1 {
		return 0, &refusal{"the number of a message is 1 or greater"}
	}
	return seq, nil
}

// planInboxSkip describes the skip of the message for which a key waits. A form skips only the message that it has named.
func (q *request) planInboxSkip() (plan, error) {
	seq, err := q.number()
	if err != nil {
		return plan{}, err
	}
	m, about, err := q.changed(seq)
	if err != nil {
		return about, err
	}
	p, err := q.Operate.Inbox.Place(q.ctx, m)
	switch {
	case err != nil:
		return about, err
	case m.Seq <= p.Seq:
		return about, &refusal{fmt.Sprintf("the key does not wait for message %d: the inbox has applied or skipped this message before", m.Seq)}
	case m.Seq > p.Seq+1:
		return about, &refusal{fmt.Sprintf("the key waits for message %d, and not for %d", p.Seq+1, m.Seq)}
	case p.There:
		return about, &refusal{fmt.Sprintf("the inbox has received message %d, and will try it. Try: wait until the message is applied or is a dead letter", m.Seq)}
	case p.Failing.Attempts > 0:
		return about, &refusal{fmt.Sprintf("message %d %s; if you skipped the message, the message would be lost. Try: repair the handler, or wait until the message is a dead letter", m.Seq, p.Failing)}
	}
	about.What = fmt.Sprintf("The consumer %[4]s gives up message %[1]d of the key %[2]s, topic %[3]s%[5]s. If the inbox receives the message later, the message counts as a duplicate. %[6]s.", m.Seq, keyname.Hash(m.Key), words.OrDash(m.Topic),
		words.Shown(m.Consumer), words.Either(p.Dead, ". The message is a dead letter, which stays stored", ""), words.Either(p.Parked == 1, "Then the inbox applies 1 later message of the key", many(p.Parked)+" later messages of the key are applied then"))
	about.Button = "Skip 1 message"
	return about, nil
}

func (q *request) inboxSkip(by operate.By) (string, error) {
	about, err := q.planInboxSkip()
	if err != nil {
		return "", err
	}
	seq, err := q.number()
	if err != nil {
		return "", err
	}
	m, _, err := q.changed(seq)
	if err != nil {
		return "", err
	}
	return about.Back, q.Operate.Inbox.Skip(q.ctx, by, m)
}

// planStartAt describes the change if a key begins at a message, with the number of messages that are dropped.
func (q *request) planStartAt() (plan, error) {
	seq, err := q.number()
	if err == nil && seq == 0 {
		err = &refusal{"the number of the first message is missing. Try: type the number of the message at which the key begins, or use the link next to a message"}
	}
	if err != nil {
		return plan{}, err
	}
	m, about, err := q.changed(seq)
	if err != nil {
		return about, err
	}
	p, err := q.Operate.Inbox.Place(q.ctx, m)
	if err == nil && seq <= p.Seq {
		err = &refusal{fmt.Sprintf("the inbox has applied or skipped the messages of the key up to %d. The key cannot begin at an earlier message, because the inbox would apply messages twice. Try: %d, or a greater number", p.Seq, p.Seq+1)}
	}
	if err != nil {
		return about, err
	}
	dropped := atLeast(p.Below, p.More)
	about.Values = append(about.Values, [2]string{"dropped", dropped})
	messages := words.Either(p.Below == 1, " message", " messages")
	about.What = fmt.Sprintf("The key %s, topic %s, of the consumer %s begins at message %d. At the moment it waits for message %d. %s parked%s dropped, and the inbox cannot restore them. Earlier messages that are received later count as duplicates.",
		keyname.Hash(m.Key), words.OrDash(m.Topic), words.Shown(m.Consumer), seq, p.Seq+1, dropped, messages+words.Either(p.Below == 1, " is", " are"))
	if f := p.Failing; f.Attempts > 0 && seq > p.Seq+1 {
		about.What += fmt.Sprintf(" Message %d %s; the change loses this message, because no dead letter stores it.", p.Seq+1, f)
	}
	about.Button = fmt.Sprintf("Begin at message %d, and drop %s%s", seq, dropped, messages)
	return about, nil
}

func (q *request) startAt(by operate.By) (string, error) {
	about, err := q.planStartAt()
	if err != nil {
		return "", err
	}
	// Dropped messages cannot be restored, so the number that the operator has confirmed must still be right.
	if said := q.FormValue("dropped"); said != about.Values[len(about.Values)-1][1] {
		return "", &refusal{"the parked messages of the key have changed since this form was opened. Try: open the form again, which says how many messages are dropped"}
	}
	seq, err := q.number()
	if err != nil {
		return "", err
	}
	m, _, err := q.changed(seq)
	if err != nil {
		return "", err
	}
	return about.Back, q.Operate.Inbox.StartAt(q.ctx, by, m)
}

// showPlace shows the key of an inbox, after it has written this read to the audit.
func (q *request) showPlace(id string) error {
	return everything(func(q *request) error {
		m, ok := q.seal.openPlace(id)
		if !ok {
			return errNotFound
		}
		if err := q.looked(operate.Access{Key: m.Key, Detail: "key of the inbox of " + words.Shown(m.Consumer) + ", on the console"}); err != nil {
			return err
		}
		return q.place()
	})(q)
}

// waitingInboxes counts the waiting keys of the first inboxes. The result known is false if no inbox exists.
func (q *request) waitingInboxes() (t operate.Tally, known bool, err error) {
	p, err := q.Operate.Inbox.Summaries(q.ctx, operate.Window{Limit: mostInboxes}, keysAtAGlance)
	// A database may have no inbox. In this case the overview leaves the part out.
	if sqlguard.IsMissing(err) {
		return t, false, nil
	}
	t.More = p.Next != ""
	for _, s := range p.Items {
		t.Number += s.Keys
		t.More = t.More || s.More
		if !s.Since.IsZero() && (t.Oldest.IsZero() || s.Since.Before(t.Oldest)) {
			t.Oldest = s.Since
		}
	}
	return t, len(p.Items) > 0, err
}

// keysAtAGlance is the number of keys of each inbox that the overview reads.
const keysAtAGlance = 5
