package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/operate"
)

// inboxChecks are the checks of inboxes, for all dialects. They do not apply if the tables of inboxes are missing.
var inboxChecks = []check{
	{name: "inbox_gaps", ask: askGaps, table: "once_inbox_position"},
	{name: "inbox_consumers", ask: askConsumers, table: "once_inbox"},
}

// gapBound is how long a key may wait for a message before the doctor reports the key.
const gapBound = time.Minute

// mostGaps is how many waiting keys the doctor counts.
const mostGaps = 100_000

// askGaps finds keys that wait for a missing or failing message. Keys that wait for a dead letter belong to the check of dead letters.
func askGaps(ctx context.Context, p *examination) (Finding, error) {
	return p.operator(ctx, func(o *operate.Operator) (Finding, error) {
		now, err := o.Keys.Now(ctx)
		if err != nil {
			return Finding{}, err
		}
		gaps, err := o.Inbox.List(ctx, operate.GapFilter{Window: operate.Window{Limit: mostGaps}})
		if err != nil {
			return Finding{}, err
		}
		keys, oldest := map[bool]int{}, map[bool]time.Duration{} // by whether the message has failed
		var first operate.Gap
		for _, g := range gaps.Items {
			// A short wait is normal, because the missing message may arrive soon.
			if waits := now.Sub(g.Since); !g.Dead && waits > gapBound {
				fails := g.Attempts > 0
				if fails && keys[fails] == 0 {
					first = g
				}
				keys[fails]++
				oldest[fails] = max(oldest[fails], waits)
			}
		}
		says := func(fails bool, what string) string {
			return words.Counted(keys[fails], "key waits", "keys wait") + what + ", the oldest key for " + words.Span(oldest[fails])
		}
		var parts []string
		if keys[false] > 0 {
			parts = append(parts, says(false, " for a message that was not received"))
		}
		if keys[true] > 0 {
			parts = append(parts, says(true, " for a message that fails")+fmt.Sprintf(": message %d of the key %s %s", first.Seq, words.Shown(first.Key), first.Failure()))
		}
		if len(parts) == 0 {
			return fine("no key waits for a message that was not received"), nil
		}
		return warn(strings.Join(parts, "; "), words.Either(keys[true] > 0, "repair the handler, and do not skip the message; ", "")+"once inbox list --db "+p.URL), nil
	})
}

// askConsumers asks the broker for the consumers of the inboxes, if Config names a broker.
func askConsumers(ctx context.Context, p *examination) (Finding, error) {
	if p.Broker == nil {
		return Finding{}, nil
	}
	names, err := p.consumers(ctx)
	if err != nil || len(names) == 0 {
		return Finding{}, err
	}
	d, err := p.Broker()
	if err != nil {
		return Finding{}, err
	}
	defer d.Close()
	if d.CheckConsumers == nil {
		return Finding{}, nil
	}
	found, findings, err := d.CheckConsumers(ctx, names)
	switch {
	case err != nil:
		return Finding{}, fmt.Errorf("%s: %w. Try: check that the broker is running and reachable from this machine", d.Name, err)
	case len(findings) > 0:
		return destinationFinding(d.Name, findings), nil
	case found == 0:
		return fine("%s has no consumer with the name of an inbox of this database: %s. If your consumer has another name, call CheckConsumer of the package of the broker in a program", d.Name, strings.Join(names, ", ")), nil
	}
	return fine("%s delivers each message again until the consumer acknowledges it: %s checked", d.Name, words.Counted(found, "consumer was", "consumers were")), nil
}

// consumers returns the consumers whose inboxes have received messages.
func (p *examination) consumers(ctx context.Context) (names []string, err error) {
	// A consumer may have rows in only one of the two tables.
	for _, table := range []string{"once_inbox", "once_inbox_position"} {
		some, err := p.distinct(ctx, table, "consumer")
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// mostNames limits the number of topics or consumers of one check.
const mostNames = 100

// distinct returns the first values of a column that begins an index, with one look-up for each value.
func (p *examination) distinct(ctx context.Context, table, column string) (list []string, err error) {
	query := dialect.Text(p.Dialect, "select min("+column+") from "+table+" where "+column+" > ?")
	for last := ""; len(list) < mostNames; {
		var next sql.NullString
		err := p.DB.QueryRowContext(ctx, query, last).Scan(&next)
		if err != nil || !next.Valid {
			return list, err
		}
		last = next.String
		list = append(list, last)
	}
	return list, nil
}
