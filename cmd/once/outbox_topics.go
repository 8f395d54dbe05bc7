package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/outbox"
)

// outboxWait is what messages of a topic wait for, for scripts. Its JSON form is a contract with them.
type outboxWait struct {
	Topic    string     `json:"topic"`
	Key      string     `json:"key,omitempty"`
	For      string     `json:"waits_for"`
	Since    *time.Time `json:"since,omitempty"`
	Oldest   *time.Time `json:"oldest,omitempty"` // when the oldest message of the topic was added
	Reason   string     `json:"reason,omitempty"`
	Node     string     `json:"node,omitempty"`
	Messages int64      `json:"messages,omitempty"`
	Stopped  int64      `json:"stopped,omitempty"`
}

// newOutboxWaits are the waits of topics, but for pauses, which have a list of their own. topic "" is all topics.
func newOutboxWaits(topics []outbox.Topic, topic string) []outboxWait {
	list := []outboxWait{}
	for _, t := range topics {
		for _, w := range t.Waits {
			if w.For == outbox.WaitPaused || topic != "" && t.Name != topic {
				continue
			}
			list = append(list, outboxWait{
				Topic: t.Name, Key: w.Key, For: string(w.For), Since: cli.Moment(w.Since), Oldest: cli.Moment(t.Oldest),
				Reason: w.Reason, Node: w.Node, Messages: w.Messages, Stopped: w.Stopped,
			})
		}
	}
	return list
}

// waitsFor says in some words what messages of a topic wait for.
func waitsFor(w outbox.TopicWait) string {
	switch w.For {
	case outbox.WaitDown:
		return "down"
	case outbox.WaitHanging:
		return "its destination does not answer"
	case outbox.WaitFull:
		return "so many of its messages fail that no others are sent"
	case outbox.WaitRate:
		return "its rate"
	case outbox.WaitFailing:
		says := atLeast(w.Messages, "failing message")
		if w.Stopped > 0 {
			says += fmt.Sprintf(", %d stopped", w.Stopped)
		}
		if w.Key != "" {
			says += ", key " + cli.Shown(w.Key)
		}
		return says
	case outbox.WaitPaused:
		if w.Key != "" {
			return "a pause of the key " + cli.Shown(w.Key)
		}
		return "a pause"
	}
	return string(w.For)
}

// atLeast counts what is counted up to a bound only.
func atLeast(n int64, what string) string {
	const most = 500 // see outbox.TopicWait
	switch {
	case n == 0:
		return what + "s"
	case n >= most:
		return fmt.Sprintf("%d %ss or more", n, what)
	}
	return cli.Count(int(n), what)
}

// printWaits prints the topics that wait for something other than a pause.
func printWaits(w io.Writer, topics []outbox.Topic, topic string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "\nTOPIC\tWAITS FOR\tSINCE\tOLDEST\tREASON\n"
	for _, of := range topics {
		for _, wait := range of.Waits {
			if wait.For == outbox.WaitPaused || topic != "" && of.Name != topic {
				continue
			}
			fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\t%s\n", head, cli.Shown(of.Name), waitsFor(wait), since(wait.Since), since(of.Oldest), cli.OrDash(wait.Reason))
			head = ""
		}
	}
	return t.Flush()
}

// since is a time, or a dash.
func since(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}
