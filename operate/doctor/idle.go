package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/words"
)

// poolIdle is how long a pool of pgx keeps an idle connection by default. A sql.DB keeps an idle connection for ever.
const poolIdle = 30 * time.Minute

// idleHosts has the services that close idle connections, although no setting of the database says so.
var idleHosts = []struct {
	part  string // a part of the host name
	after time.Duration
	by    string
}{
	{".neon.tech", 5 * time.Minute, "Neon (unless autosuspend is off)"},
	{".proxy-", 30 * time.Minute, "RDS Proxy (unless its idle client connection timeout was changed)"},
}

// idleEnd says when idle connections are closed, and by which setting. If after is zero, they are not closed.
type idleEnd struct {
	after time.Duration
	by    string
	try   string
}

func (i idleEnd) orSooner(other idleEnd) idleEnd {
	if i.after == 0 || other.after > 0 && other.after < i.after {
		return other
	}
	return i
}

// judge warns if the server closes connections that a pool keeps for longer than bound. The pool replaces such a connection at its next use, and the
// call waits for the new connection.
func (i idleEnd) judge(bound time.Duration) Finding {
	switch {
	case i.after == 0:
		return fine("the server does not close idle connections")
	case i.after <= bound:
		return warn(fmt.Sprintf("%s closes connections that are idle for %s: after an idle time, a call waits until the pool has opened a new connection", i.by, words.Span(i.after)),
			fmt.Sprintf("set MaxConnIdleTime of the pgxpool, or SetConnMaxIdleTime of the sql.DB, to less than %s%s", words.Span(i.after), i.try))
	}
	return fine("%s closes connections that are idle for %s", i.by, words.Span(i.after))
}

// idleByHost returns the idleEnd of the cloud service to which a host name belongs.
func idleByHost(host string) idleEnd {
	for _, h := range idleHosts {
		if strings.Contains(host+".", h.part) {
			return idleEnd{h.after, h.by, ""}
		}
	}
	return idleEnd{}
}

func askIdlePostgres(ctx context.Context, p *examination) (Finding, error) {
	var ms int64
	if err := p.DB.QueryRowContext(ctx, "select coalesce(max(setting::bigint), 0) from pg_settings where name = 'idle_session_timeout'").Scan(&ms); err != nil {
		return Finding{}, err
	}
	end := idleByHost(p.Host)
	if ms > 0 {
		end = end.orSooner(idleEnd{time.Duration(ms) * time.Millisecond, "the server (idle_session_timeout)", "; or alter role SERVICE set idle_session_timeout = 0"})
	}
	if !p.pooler || p.BouncerSettings == nil {
		return end.judge(poolIdle), nil
	}
	settings, err := p.BouncerSettings(ctx)
	if err != nil {
		f := end.judge(poolIdle)
		f.Says += "; this user may not read the setting client_idle_timeout of the pooler, so the check has ignored it"
		return f, nil //nolint:nilerr // the finding says so
	}
	if d := seconds(settings["client_idle_timeout"]); d > 0 {
		end = end.orSooner(idleEnd{d, "PgBouncer (client_idle_timeout)", "; or client_idle_timeout = 0"})
	}
	f := end.judge(poolIdle)
	if d := seconds(settings["server_idle_timeout"]); d > 0 {
		f.Says += fmt.Sprintf("; PgBouncer closes its idle connections to the server after %s (server_idle_timeout)", words.Span(d))
	}
	return f, nil
}

// seconds parses a setting in seconds, which may have a fraction. It returns 0 for any other text.
func seconds(s string) time.Duration {
	n, _ := strconv.ParseFloat(s, 64)
	return time.Duration(n * float64(time.Second))
}

// shortIdle is a little shorter than the wait_timeout that the check of idle transactions advises.
const shortIdle = time.Minute - time.Second

func askIdleMySQL(ctx context.Context, p *examination) (Finding, error) {
	value, err := p.setting(ctx, "show variables like 'wait_timeout'")
	if err != nil {
		return Finding{}, err
	}
	// The cloud service closes connections, whatever the setting of the server says.
	if end := idleByHost(p.Host); end.after > 0 {
		return end.judge(poolIdle), nil
	}
	return idleEnd{seconds(value), "the server (wait_timeout)", "; or a longer wait_timeout"}.judge(shortIdle), nil
}
