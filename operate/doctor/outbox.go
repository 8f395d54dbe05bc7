package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

// outboxChecks are the checks of the outbox, for all dialects. They do not apply if the tables of the outbox are missing.
var outboxChecks = []check{
	{"outbox_backlog", askBacklog, "OnceOutboxBehind"},
	{"outbox_stopped", askStopped, "OnceOutboxKeyBlocked"},
	{"outbox_paused", askPaused, "OnceOutboxTopicHeld"},
	{"outbox_topics", askTopics, "OnceOutboxTopicInTrouble"},
	{"outbox_relays", askRelays, "OnceOutboxBehind"},
	{name: "outbox_destination", ask: askDestination},
}

// backlogBound is how long a message may wait before the doctor reports it.
const backlogBound = time.Minute

func askBacklog(ctx context.Context, p *examination) (Finding, error) {
	return p.operator(ctx, func(o *operate.Operator) (Finding, error) {
		b, err := o.Outbox.Backlog(ctx)
		switch {
		case err != nil:
			return Finding{}, err
		case b.Messages == 0:
			return fine("no message waits for its delivery"), nil
		case b.Oldest > backlogBound:
			says := fmt.Sprintf("%s for delivery, the oldest for %s", waiting(b.Messages), words.Span(b.Oldest))
			if b.OldestSnapshot > backlogBound {
				says += fmt.Sprintf("; a transaction has been open for %s, and until it ends PostgreSQL cannot remove dead rows, which slows the relay down", words.Span(b.OldestSnapshot))
			}
			return warn(says, "once outbox list --db "+p.URL), nil
		}
		return fine("%s for delivery, the oldest for %s", waiting(b.Messages), words.Span(b.Oldest)), nil
	})
}

// mostCounted is the number of messages at which the count of a backlog ends.
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

func askStopped(ctx context.Context, p *examination) (Finding, error) {
	return p.operator(ctx, func(o *operate.Operator) (Finding, error) {
		b, err := o.Outbox.Backlog(ctx)
		switch {
		case err != nil:
			return Finding{}, err
		case b.Stopped > 0:
			return warn(words.Either(b.Stopped == 1, "1 message is", fmt.Sprintf("%d messages are", b.Stopped))+" given up, and later messages of the same keys wait until a person decides about it: "+words.Count(int(b.Blocked), "key")+" blocked",
				"once outbox list --state stopped --db "+p.URL), nil
		case b.Failing > 0:
			return fine("no message is given up; %s, and relays try again", words.Either(b.Failing == 1, "1 has failed", fmt.Sprintf("%d have failed", b.Failing))), nil
		}
		return fine("no message has failed"), nil
	})
}

func askPaused(ctx context.Context, p *examination) (Finding, error) {
	return p.operator(ctx, func(o *operate.Operator) (Finding, error) {
		list, err := o.Outbox.Pauses(ctx)
		if err != nil || len(list) == 0 {
			return Finding{}, err
		}
		longest := slices.MinFunc(list, func(a, b operate.Pause) int { return a.Since.Compare(b.Since) })
		return warn(fmt.Sprintf("%d topics or keys are paused, the longest for %s: their messages wait", len(list), longest), "once outbox list --db "+p.URL), nil
	})
}

// mostTold is how many topics a finding names.
const mostTold = 3

// askTopics finds topics whose messages wait for a reason other than a pause.
func askTopics(ctx context.Context, p *examination) (Finding, error) {
	return p.operator(ctx, func(o *operate.Operator) (Finding, error) {
		topics, err := o.Outbox.Topics(ctx)
		if err != nil {
			return Finding{}, err
		}
		return p.judgeTopics(topics), nil
	})
}

func (p *examination) judgeTopics(topics []outbox.Topic) Finding {
	var says []string
	n := 0
	var late outbox.Topic
	for _, t := range topics {
		if !t.Ready.IsZero() && (late.Name == "" || t.Ready.Before(late.Ready)) {
			late = t
		}
		waits := operate.WaitsOf(t)
		if len(waits) == 0 {
			continue
		}
		if n++; n <= mostTold {
			// Reasons that hold back the whole topic come first.
			w := waits[0]
			one := fmt.Sprintf("%s: %s", words.Shown(t.Name), w)
			if !w.Since.IsZero() {
				one += " for " + words.Span(t.Now.Sub(w.Since))
			}
			if w.Reason != "" {
				one += " (" + words.Shown(w.Reason) + ")"
			}
			says = append(says, one)
		}
	}
	switch age := late.Now.Sub(late.Ready); {
	case n > 0:
		more := words.Either(n > mostTold, fmt.Sprintf("; and %d more", n-mostTold), "")
		return warn(words.Either(n == 1, "1 topic waits. ", fmt.Sprintf("%d topics wait. ", n))+strings.Join(says, "; ")+more, "once outbox list --db "+p.URL)
	case late.Name != "" && age > backlogBound:
		return warn(fmt.Sprintf("the oldest message of the topic %s has waited for %s, although its topic is not paused and its destination is not down", words.Shown(late.Name), words.Span(age)), "start a relay, or more relays: once relay --to URL --db "+p.URL)
	}
	return fine("no topic waits too long")
}

// askRelays counts the running relays. Without a relay a backlog only grows.
func askRelays(ctx context.Context, p *examination) (Finding, error) {
	var nodes int
	err := p.DB.QueryRowContext(ctx, dialect.Text(p.Dialect, "select count(*) from once_hold_node where work = 'outbox' and expires > NOW")).Scan(&nodes)
	if err != nil {
		return Finding{}, err
	}
	if nodes > 0 {
		return fine("%s at work", words.Either(nodes == 1, "1 relay is", fmt.Sprintf("%d relays are", nodes))), nil
	}
	return p.operator(ctx, func(o *operate.Operator) (Finding, error) {
		b, err := o.Outbox.Backlog(ctx)
		if err == nil && b.Messages > 0 {
			return warn("no relay is running: messages are added to the outbox, and nothing delivers them", "call go relay.Run(ctx) in the service, or start once relay --to URL --db "+p.URL), nil
		}
		return fine("no relay is running, and no message waits for delivery"), err
	})
}

// askDestination checks the settings of the broker, if Config names a broker.
func askDestination(ctx context.Context, p *examination) (Finding, error) {
	if p.Broker == nil {
		return Finding{}, nil
	}
	d, err := p.Broker()
	if err != nil {
		return Finding{}, err
	}
	defer d.Close()
	if d.Check == nil {
		return fine("%s has no settings that can be checked. Make sure that it confirms a message only after the message is stored", d.Name), nil
	}
	topics, err := p.distinct(ctx, "once_stream", "topic")
	if err != nil {
		return Finding{}, err
	}
	found, err := d.Check(ctx, topics)
	switch {
	case err != nil:
		return Finding{}, fmt.Errorf("%s: %w. Try: check that the broker is running and reachable from this machine", d.Name, err)
	case len(found) > 0:
		return destinationFinding(d.Name, found), nil
	}
	return fine("%s keeps the messages that it confirms, as far as its settings show: %s checked", d.Name, words.Either(len(topics) == 1, "1 topic was", fmt.Sprintf("%d topics were", len(topics)))), nil
}

// destinationFinding makes one finding of several sentences about a broker. Each sentence contains its own advice.
func destinationFinding(name string, found []string) Finding {
	var says, tries []string
	for _, sentence := range found {
		what, try := words.Advice(sentence)
		says, tries = append(says, strings.TrimRight(what, ".")), append(tries, try)
	}
	return warn(name+": "+strings.Join(says, "; "), strings.Join(tries, "; "))
}
