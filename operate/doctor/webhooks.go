package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
)

// webhookChecks are the checks of webhooks, for all dialects. They do not apply to a database without endpoints.
var webhookChecks = []check{
	{name: "webhook_due", ask: askDueWebhooks},
	{name: "webhook_disabled", ask: askDisabledEndpoints},
}

// askDueWebhooks finds endpoints with overdue deliveries that no open circuit and no earlier delivery delays.
func askDueWebhooks(ctx context.Context, p *examination) (Finding, error) {
	n, oldest, now, err := p.endpoints(ctx, dialect.DueEndpoints)
	if late := now.Sub(oldest); err == nil && n > 0 && late > overdueBound {
		return warn(fmt.Sprintf("%s for %s: no process runs webhook.Relay.Run, or the endpoints get more events than they can receive", words.Either(n == 1, "the deliveries of 1 endpoint have been due", fmt.Sprintf("the deliveries of %d endpoints have been due", n)), words.Span(late)),
			"once webhook endpoints --db "+p.URL+", and start a process that runs the relay of webhooks"), nil
	}
	return Finding{}, err
}

// askDisabledEndpoints finds endpoints that were disabled because of failures, and not by a person.
func askDisabledEndpoints(ctx context.Context, p *examination) (Finding, error) {
	n, oldest, now, err := p.endpoints(ctx, "select count(*), min(disabled_at), NOW from once_webhook_endpoint where disabled_by in ('failing', 'gone') and deleted_at is null")
	if n > 0 && err == nil {
		return warn(fmt.Sprintf("%s, because they failed for too long or have answered 410; the first one %s ago", words.Either(n == 1, "1 endpoint of webhooks is disabled", fmt.Sprintf("%d endpoints of webhooks are disabled", n)), words.Span(now.Sub(oldest))),
			"once webhook endpoints --state disabled --db "+p.URL), nil
	}
	return Finding{}, err
}

// endpoints runs a query that counts endpoints, and returns the number and the time of the first one. It returns 0 if the tables are missing.
func (p *examination) endpoints(ctx context.Context, query string) (n int, oldest, now time.Time, err error) {
	err = p.DB.QueryRowContext(ctx, dialect.Text(p.Dialect, query)).Scan(&n, (*dialect.Time)(&oldest), (*dialect.Time)(&now))
	if sqlguard.IsMissing(err) {
		return 0, oldest, now, nil
	}
	return n, oldest, now, err
}
