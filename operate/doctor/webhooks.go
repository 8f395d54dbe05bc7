package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
)

// webhookChecks are the checks of webhooks, for all dialects. They do not apply to a database without endpoints.
var webhookChecks = []check{
	{name: "webhook_due", ask: askDueWebhooks, table: "once_webhook_endpoint"},
	{name: "webhook_disabled", ask: askDisabledEndpoints, table: "once_webhook_endpoint"},
}

// askDueWebhooks finds endpoints with overdue deliveries that no open circuit and no earlier delivery delays.
func askDueWebhooks(ctx context.Context, p *examination) (Finding, error) {
	n, oldest, now, err := p.endpoints(ctx, dialect.DueEndpoints)
	if late := now.Sub(oldest); err == nil && n > 0 && late > overdueBound {
		return warn(fmt.Sprintf("%s deliveries that are due, the oldest delivery for %s: no process runs webhook.Relay.Run, or an endpoint gets more events than it can receive", words.Counted(n, "endpoint has", "endpoints have"), words.Span(late)),
			"once webhook endpoints --db "+p.URL+", and then start a process that calls webhook.Relay.Run"), nil
	}
	return Finding{}, err
}

// askDisabledEndpoints finds endpoints that were disabled because of failures, and not by a person.
func askDisabledEndpoints(ctx context.Context, p *examination) (Finding, error) {
	n, oldest, now, err := p.endpoints(ctx, "select count(*), min(disabled_at), NOW from once_webhook_endpoint where disabled_by in ('failing', 'gone') and deleted_at is null")
	if n > 0 && err == nil {
		return warn(fmt.Sprintf("%s disabled, the first disabled endpoint for %s: an endpoint is disabled if it fails for too long, or answers with 410", words.Counted(n, "webhook endpoint is", "webhook endpoints are"), words.Span(now.Sub(oldest))),
			"once webhook endpoints --state disabled --db "+p.URL), nil
	}
	return Finding{}, err
}

// endpoints runs a query that counts endpoints, and returns the number and the time of the first one. It returns 0 if the tables are missing.
func (p *examination) endpoints(ctx context.Context, query string) (n int, oldest, now time.Time, err error) {
	err = p.DB.QueryRowContext(ctx, dialect.Text(p.Dialect, query)).Scan(&n, (*dialect.Time)(&oldest), (*dialect.Time)(&now))
	return n, oldest, now, err
}
