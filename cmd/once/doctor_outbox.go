package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// outboxChecks are the same for all dialects. Without the tables of the outbox there is nothing to ask.
var outboxChecks = []check{
	{"outbox_backlog", askBacklog},
	{"outbox_stopped", askStopped},
	{"outbox_paused", askPaused},
	{"outbox_topics", askTopics},
	{"outbox_relays", askRelays},
	{"outbox_destination", askDestination},
}

// store opens a store as once migrate does: without prepared statements on PostgreSQL, and on
// SQLite without the settings of the service, with which sqlstore may refuse to work.
func (p *patient) store(ctx context.Context) (*sqlstore.Store, func(), error) {
	cfg, err := p.PGX()
	if err != nil {
		return nil, nil, err
	}
	var db *sql.DB
	if cfg != nil {
		db = sqlstore.OpenDB(sqlplane.PostgreSQL, stdlib.GetConnector(*cfg))
	} else {
		src := p.Source
		if src.Path != "" {
			if src, err = cli.ParseSource("sqlite:" + src.Path); err != nil {
				return nil, nil, err
			}
		}
		if db, err = sqlstore.Open(src.Driver, src.DSN); err != nil {
			return nil, nil, err
		}
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		_ = db.Close()
		return nil, nil, cli.OwnError(err)
	}
	return s, func() { _ = db.Close() }, nil
}

func (p *patient) backlog(ctx context.Context) (outbox.Backlog, error) {
	s, end, err := p.store(ctx)
	if err != nil {
		return outbox.Backlog{}, err
	}
	defer end()
	waiting, err := outbox.New(s, outbox.Config{}).Backlog(ctx)
	if err != nil {
		return waiting, cli.OwnError(err)
	}
	return waiting, nil
}

// backlogBound is how long a message may wait before it is worth a word.
const backlogBound = time.Minute

func askBacklog(ctx context.Context, p *patient) (finding, error) {
	b, err := p.backlog(ctx)
	switch {
	case err != nil:
		return finding{}, err
	case b.Messages == 0:
		return fine("no message waits for its delivery"), nil
	case b.Oldest > backlogBound:
		says := fmt.Sprintf("%s for delivery, the oldest for %s", waiting(b.Messages), cli.Span(b.Oldest))
		if b.OldestSnapshot > backlogBound {
			says += fmt.Sprintf("; a transaction has been open for %s, and PostgreSQL removes no dead rows meanwhile", cli.Span(b.OldestSnapshot))
		}
		return warn.because(says, "once outbox list --db "+p.Paste), nil
	}
	return fine("%s for delivery, the oldest for %s", waiting(b.Messages), cli.Span(b.Oldest)), nil
}

// mostCounted is the number of messages at which a backlog is no longer counted.
const mostCounted = 100_000

func waiting(n int64) string {
	switch {
	case n == 1:
		return "1 message waits"
	case n >= mostCounted:
		return fmt.Sprintf("%d messages or more wait", mostCounted)
	}
	return fmt.Sprintf("%d messages wait", n)
}

func askStopped(ctx context.Context, p *patient) (finding, error) {
	b, err := p.backlog(ctx)
	switch {
	case err != nil:
		return finding{}, err
	case b.Stopped > 0:
		return warn.because(cli.Either(b.Stopped == 1, "1 message is", fmt.Sprintf("%d messages are", b.Stopped))+" given up, and later messages of the same keys wait until a person decides: "+cli.Count(int(b.Blocked), "key")+" blocked",
			"once outbox list --state stopped --db "+p.Paste), nil
	case b.Failing > 0:
		return fine("no message is given up; %s, and relays try again", cli.Either(b.Failing == 1, "1 has failed", fmt.Sprintf("%d have failed", b.Failing))), nil
	}
	return fine("no message has failed"), nil
}

func askPaused(ctx context.Context, p *patient) (finding, error) {
	var n int
	var topic, key string
	err := p.QueryRowContext(ctx, "select count(*) from once_outbox_paused").Scan(&n)
	if err != nil || n == 0 {
		return finding{}, err
	}
	err = p.QueryRowContext(ctx, dialect.Text(p.Dialect, "select topic, KEY from once_outbox_paused order by paused_at limit 1")).Scan(&topic, &key)
	return warn.because(fmt.Sprintf("%d topics or keys are paused, %s for the longest time: their messages wait", n, subject(topic, key)), "once outbox list --db "+p.Paste), err
}

// mostTold is how many topics a finding names.
const mostTold = 3

// askTopics asks which topics wait for something other than a pause, and for what.
func askTopics(ctx context.Context, p *patient) (finding, error) {
	s, end, err := p.store(ctx)
	if err != nil {
		return finding{}, err
	}
	defer end()
	topics, err := outbox.New(s, outbox.Config{}).Topics(ctx)
	if err != nil {
		return finding{}, cli.OwnError(err)
	}
	var says []string
	n := 0
	var late outbox.Topic
	for _, t := range topics {
		if !t.Ready.IsZero() && (late.Name == "" || t.Ready.Before(late.Ready)) {
			late = t
		}
		i := slices.IndexFunc(t.Waits, func(w outbox.TopicWait) bool { return w.For != outbox.WaitPaused })
		if i < 0 {
			continue
		}
		if n++; n <= mostTold {
			w := t.Waits[i]
			one := fmt.Sprintf("%s: %s", cli.Shown(t.Name), waitsFor(w))
			if !w.Since.IsZero() {
				one += " for " + cli.Span(t.Now.Sub(w.Since))
			}
			if w.Reason != "" {
				one += " (" + cli.Shown(w.Reason) + ")"
			}
			says = append(says, one)
		}
	}
	switch age := late.Now.Sub(late.Ready); {
	case n > 0:
		more := cli.Either(n > mostTold, fmt.Sprintf("; and %d more", n-mostTold), "")
		return warn.because(cli.Either(n == 1, "1 topic waits. ", fmt.Sprintf("%d topics wait. ", n))+strings.Join(says, "; ")+more, "once outbox list --db "+p.Paste), nil
	case late.Name != "" && age > backlogBound:
		return warn.because(fmt.Sprintf("nothing holds the topic %s back, and its oldest message waits for %s", cli.Shown(late.Name), cli.Span(age)), "more relays, or a relay that runs: once relay --to URL --db "+p.Paste), nil
	}
	return fine("no topic waits for anything but a relay"), nil
}

// askRelays asks which processes live that deliver messages: a backlog without one only grows.
func askRelays(ctx context.Context, p *patient) (finding, error) {
	var nodes int
	err := p.QueryRowContext(ctx, dialect.Text(p.Dialect, "select count(*) from once_hold_node where work = 'outbox' and expires > NOW")).Scan(&nodes)
	if err != nil {
		return finding{}, err
	}
	if nodes > 0 {
		return fine("%s at work", cli.Either(nodes == 1, "1 relay is", fmt.Sprintf("%d relays are", nodes))), nil
	}
	b, err := p.backlog(ctx)
	if err == nil && b.Messages > 0 {
		return warn.because("no relay is at work: messages are added, and nothing delivers them", "go relay.Run(ctx) in the service, or once relay --to URL --db "+p.Paste), nil
	}
	return fine("no relay is at work, and no message waits for one"), err
}

// mostNames is how many topics or consumers are asked for.
const mostNames = 100

// askDestination asks the broker, if the command line names one.
func askDestination(ctx context.Context, p *patient) (finding, error) {
	if p.to == "" {
		return finding{}, nil
	}
	d, err := openDestination(p.to)
	if err != nil {
		return finding{}, err
	}
	defer d.close()
	if d.ask == nil {
		return fine("%s has no settings to ask for. It must confirm a message only after it has stored it", d.name), nil
	}
	topics, err := distinct(ctx, p.DB, p.Dialect, "once_stream", "topic", mostNames)
	if err != nil {
		return finding{}, err
	}
	found, err := d.ask(ctx, topics)
	switch {
	case err != nil:
		return finding{}, fmt.Errorf("%s: %w. Try: is it running, and can it be reached from here?", d.name, err)
	case len(found) > 0:
		return destinationFinding(d.name, found), nil
	}
	return fine("%s keeps what it confirms, as far as it can be asked: %s looked at", d.name, cli.Either(len(topics) == 1, "1 topic was", fmt.Sprintf("%d topics were", len(topics)))), nil
}

// destinationFinding makes one finding of the sentences of a publisher, each of which brings its advice.
func destinationFinding(name string, found []string) finding {
	var says, tries []string
	for _, sentence := range found {
		what, try := cli.Advice(sentence)
		says, tries = append(says, strings.TrimRight(what, ".")), append(tries, try)
	}
	return warn.because(name+": "+strings.Join(says, "; "), strings.Join(tries, "; "))
}
