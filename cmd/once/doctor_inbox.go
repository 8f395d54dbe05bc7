package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
)

// inboxChecks are the same for all dialects. Without the tables of the inbox there is nothing to ask.
var inboxChecks = []check{
	{"inbox_gaps", askGaps},
	{"inbox_consumers", askConsumers},
}

// gapBound is how long a key may wait for a message before it is worth a word.
const gapBound = time.Minute

// mostGaps is how many keys that wait are counted.
const mostGaps = 100_000

// askGaps asks for keys that wait for a message that has not come. What waits for a dead letter is told with the dead letters.
func askGaps(ctx context.Context, p *patient) (finding, error) {
	s, end, err := p.store(ctx)
	if err != nil {
		return finding{}, err
	}
	defer end()
	o := operate.New(s, operate.Config{})
	now, err := o.Keys.Now(ctx)
	if err != nil {
		return finding{}, cli.OwnError(err)
	}
	gaps, err := o.Inbox.List(ctx, operate.GapFilter{Window: operate.Window{Limit: mostGaps}})
	if err != nil {
		return finding{}, cli.OwnError(err)
	}
	keys := 0
	var oldest time.Duration
	for _, g := range gaps.Items {
		if waits := now.Sub(g.Since); !g.Dead && waits > gapBound {
			keys++
			oldest = max(oldest, waits)
		}
	}
	if keys == 0 {
		return fine("no key waits for a message that has not come"), nil
	}
	says := cli.Either(keys == 1, "1 key waits", fmt.Sprintf("%d keys wait", keys)) + " for a message that has not come, the oldest for " + cli.Span(oldest)
	return warn.because(says, "once inbox list --db "+p.Paste), nil
}

// askConsumers asks the broker, if the command line names one, for the consumers of the inboxes.
func askConsumers(ctx context.Context, p *patient) (finding, error) {
	if p.to == "" {
		return finding{}, nil
	}
	names, err := p.consumers(ctx)
	if err != nil || len(names) == 0 {
		return finding{}, err
	}
	d, err := openDestination(p.to)
	if err != nil {
		return finding{}, err
	}
	defer d.close()
	if d.askConsumers == nil {
		return finding{}, nil
	}
	found, findings, err := d.askConsumers(ctx, names)
	switch {
	case err != nil:
		return finding{}, fmt.Errorf("%s: %w. Try: is it running, and can it be reached from here?", d.name, err)
	case len(findings) > 0:
		return destinationFinding(d.name, findings), nil
	case found == 0:
		return fine("%s has no consumer with the name of an inbox: %s. natsbroker.CheckConsumer asks for one with another name", d.name, strings.Join(names, ", ")), nil
	}
	return fine("%s delivers each message until it is acknowledged: %s looked at", d.name, cli.Either(found == 1, "1 consumer was", fmt.Sprintf("%d consumers were", found))), nil
}

// consumers returns the consumers whose inboxes have had messages.
func (p *patient) consumers(ctx context.Context) (names []string, err error) {
	for _, table := range []string{"once_inbox", "once_inbox_position"} {
		some, err := distinct(ctx, p.DB, p.Dialect, table, "consumer", mostNames)
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
