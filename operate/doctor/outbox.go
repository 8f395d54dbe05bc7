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
	{name: "outbox_backlog", ask: askBacklog, runbook: "OnceOutboxBehind", table: "once_outbox"},
	{name: "outbox_stopped", ask: askStopped, runbook: "OnceOutboxKeyBlocked", table: "once_outbox"},
	{name: "outbox_paused", ask: askPaused, runbook: "OnceOutboxTopicHeld", table: "once_outbox_paused"},
	{name: "outbox_topics", ask: askTopics, runbook: "OnceOutboxTopicInTrouble", table: "once_outbox"},
	{name: "outbox_relays", ask: askRelays, runbook: "OnceOutboxBehind", table: "once_hold_node"},
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
			return fine("no message waits for delivery"), nil
		case b.Oldest > backlogBound:
			says := fmt.Sprintf("%s for delivery, the oldest message for %s", waiting(b.Messages), words.Span(b.Oldest))
			if b.OldestSnapshot > backlogBound {
				says += fmt.Sprintf(". A transaction has been open for %s. Until this transaction ends, PostgreSQL cannot remove dead rows, and the relay is slow", words.Span(b.OldestSnapshot))
			}
			return warn(says, "once outbox list --db "+p.URL), nil
		}
		return fine("%s for delivery, the oldest message for %s", waiting(b.Messages), words.Span(b.Oldest)), nil
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
			return warn(fmt.Sprintf("relays have given up %s, and %s blocked: an operator must resume or skip the messages", words.Count(int(b.Stopped), "message"), words.Counted(int(b.Blocked), "key is", "keys are")),
				"once outbox list --state stopped --db "+p.URL), nil
		case b.Failing > 0:
			return fine("no message is given up; the delivery of %s has failed, and relays try again", words.Count(int(b.Failing), "message")), nil
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
		return warn(fmt.Sprintf("%s paused, and messages wait; the oldest pause is the pause of %s", words.Counted(len(list), "topic or key is", "topics or keys are"), longest), "once outbox list --db "+p.URL), nil
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
		return warn(words.Counted(n, "topic waits. ", "topics wait. ")+strings.Join(says, "; ")+more, "once outbox list --db "+p.URL)
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
		return fine("%s running", words.Counted(nodes, "relay is", "relays are")), nil
	}
	return p.operator(ctx, func(o *operate.Operator) (Finding, error) {
		b, err := o.Outbox.Backlog(ctx)
		if err == nil && b.Messages > 0 {
			return warn("no relay is running: messages wait in the outbox, and no process delivers them", "call relay.Run(ctx) in a goroutine of the service, or start once relay --to URL --db "+p.URL), nil
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
		return fine("%s has no settings that the doctor can check. Make sure that %[1]s confirms a message only after it has stored the message", d.Name), nil
	}
	topics := p.Topics
	if ok, err := p.has(ctx, "once_stream"); err != nil {
		return Finding{}, err
	} else if ok {
		used, err := p.distinct(ctx, "once_stream", "topic")
		if err != nil {
			return Finding{}, err
		}
		topics = slices.Compact(slices.Sorted(slices.Values(slices.Concat(topics, used))))
	}
	if len(topics) == 0 {
		return warn("the outbox has not had a message with a key yet, so the settings of "+d.Name+" for its topics were not checked", "once doctor --to URL --topic NAME --db "+p.URL+", with the name of each topic"), nil
	}
	found, err := d.Check(ctx, topics)
	switch {
	case err != nil:
		return Finding{}, fmt.Errorf("%s: %w. Try: check that the broker is running and reachable from this machine", d.Name, err)
	case len(found) > 0:
		return destinationFinding(d.Name, found), nil
	}
	return fine("according to its settings, %s keeps the messages that it confirms: %s checked", d.Name, words.Counted(len(topics), "topic was", "topics were")), nil
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
