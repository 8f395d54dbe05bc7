package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
)

// restoreChecks replace all other checks if Config.RestoredTo is set, for a database that was restored from a backup. docs/restore.md explains their
// findings in the same order.
var restoreChecks = []check{
	{name: "restore_moment", ask: askMoment},
	{name: "restore_work", ask: askWorkSince, table: "once_operation"},
	{name: "restore_calls", ask: askCalls, table: "once_operation"},
	{name: "restore_unknown", ask: askUnknownAgain, table: "once_operation"},
	{name: "restore_sagas", ask: askSagasAgain, table: "once_operation"},
	{name: "restore_outbox", ask: askDeliveredAgain, table: "once_outbox"},
	{name: "restore_numbers", ask: askNumbers, table: "once_stream_start"},
	{name: "restore_inbox", ask: askForgottenMessages, table: "once_inbox"},
	{name: "restore_webhooks", ask: askWebhooksAgain, table: "once_webhook_endpoint"},
	{name: "restore_letters", ask: askLettersAgain, table: "once_deadletter"},
	{name: "restore_intents", ask: askIntentsAgain, table: "once_intent"},
	{name: "restore_receipts", ask: askReceiptsAgain, table: "once_receipt"},
	{name: "restore_forgotten", ask: askForgottenAgain, table: "once_audit"},
}

// firstIDs is how many of the counted rows a finding names.
const firstIDs = 5

// several is the number of rows that a query has found, and the names of the first ones.
type several struct {
	n     int
	first []string
}

// several counts the rows of a table that meet a condition, up to 10,000, and returns the names of the first ones. A name consists of the given
// columns.
func (p *examination) several(ctx context.Context, table, where, columns string, args ...any) (s several, err error) {
	rows, err := p.DB.QueryContext(ctx, dialect.Text(p.Dialect, fmt.Sprintf("select %s from %s where %s order by %s limit %d", columns, table, where, columns, most)), args...)
	if err != nil {
		return s, err
	}
	defer func() { _ = rows.Close() }()
	names := make([]string, strings.Count(columns, ",")+1)
	into := make([]any, len(names))
	for i := range names {
		into[i] = &names[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return s, err
		}
		if s.n++; len(s.first) < firstIDs {
			s.first = append(s.first, strings.Join(names, " "))
		}
	}
	return s, rows.Err()
}

// of returns the number with a noun.
func (s several) of(noun string) string {
	if s.n >= most {
		return fmt.Sprintf("at least %d %ss", most, noun)
	}
	return words.Count(s.n, noun)
}

// again returns a warning with the names of the first rows, or a good finding if no row was found.
func (s several) again(none, says, try string) Finding {
	if s.n == 0 {
		return fine("%s", none)
	}
	f := warn(says, try)
	f.First = s.first
	return f
}

// askMoment compares the time of the backup with the clock of the database.
func askMoment(ctx context.Context, p *examination) (Finding, error) {
	var now time.Time
	err := p.DB.QueryRowContext(ctx, dialect.Text(p.Dialect, "select NOW")).Scan((*dialect.Time)(&now))
	lost := now.Sub(p.RestoredTo)
	switch {
	case err != nil:
		return Finding{}, err
	case lost < 0:
		return fail(fmt.Sprintf("the moment of the backup, %s, is later than the time of the clock of this database, %s. This clock decides when retentions and leases end", words.Time(p.RestoredTo), words.Time(now)),
			"correct the clock of the server, or give the correct moment of the backup"), nil
	}
	return warn(fmt.Sprintf("all effects, keys and messages that were committed here in the last %s, since %s, are lost. The called services still have their effects, clients have the answers, and caches replay these answers", words.Span(lost), words.Time(p.RestoredTo)),
		"stop every process that used this database before the restore, empty shared caches (Redis), and follow the advice of all these checks before you start the service"), nil
}

// askWorkSince finds operations that began after the backup. They show that the service has already worked on the restored database.
func askWorkSince(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, "once_operation", "since > ?", "scope, KEY", dialect.StoredTime(p.Dialect, p.RestoredTo))
	return s.again("no operation began after the moment of the backup. If a client retries a lost operation, the operation runs again, and calls other services with the same keys as before",
		s.of("operation")+" began after the moment of the backup: the service has run since the restore, or the given moment is too early. Consumers may treat messages that the service has added since then as repetitions",
		"give the moment of the last commit in the backup; or stop the service until you have followed the advice of all these checks"), err
}

// calling is the condition that an operation has begun a call of another service whose outcome is not in the backup.
const calling = "calling"

func askCalls(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, p.unfinished4(), calling+" and not ("+ofSagas+")", "scope, KEY")
	return s.again("no call to another service was in flight at the moment of the backup",
		s.of("call")+" in flight at the moment of the backup may have ended since then. A call that was begun is made again with its key. The repeated call is safe as long as the called service remembers the key (CallPolicy). When the called service has forgotten the key, the outcome of the operation becomes unknown",
		"if the called service has forgotten a key by now, look up the call at that service with once keys show KEY --scope SCOPE --db "+p.URL+", and then run once keys resolve. The other operations need no action"), err
}

// unfinished4 returns the table of the operations that are not done, with the mark of a call.
func (p *examination) unfinished4() string {
	return dialect.Unfinished(p.Dialect, "scope, KEY, state, since, lease_until, calling", most)
}

func askUnknownAgain(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, p.unfinished(), fmt.Sprintf("state = %d", store.StateUnknown), "scope, KEY")
	return s.again("no operation waited for the decision of an operator at the moment of the backup",
		s.of("operation")+" waited for the decision of an operator at the moment of the backup. If an operator has decided since then, the decision is lost, together with its entry in the audit",
		"make the same decisions again: once keys list --state unknown --db "+p.URL), err
}

func askSagasAgain(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, p.unfinished(), ofSagas, "scope, KEY")
	return s.again("no saga was running at the moment of the backup",
		s.of("saga")+" running at the moment of the backup will continue from that moment. Steps in this database run again, because their effects are lost too. Calls to other services, and the undo of such calls, are made again with the same keys",
		"once saga list --db "+p.URL+", and look up the calls at the called services, if these services have forgotten the keys by now"), err
}

func askDeliveredAgain(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, "once_outbox", "1 = 1", "event_id")
	return s.again("no message waits for delivery",
		s.of("message")+" waiting at the moment of the backup may have been delivered since then. A relay delivers each message again, with the same ID and number, and an inbox treats the message as a duplicate",
		"once relay --to BROKER --db "+p.URL+", until once outbox list shows no message. Run the relay before once outbox renumber"), err
}

func askNumbers(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, "once_stream", "1 = 1", "topic, KEY")
	if err != nil {
		return Finding{}, err
	}
	var after int64
	if err := p.DB.QueryRowContext(ctx, "select coalesce(max(seq), 0) from once_stream_start").Scan(&after); err != nil {
		return Finding{}, err
	}
	if after > p.RestoredTo.UnixMilli() {
		return fine("an operator ran once outbox renumber after the moment of the backup: the numbers of all keys continue after %d. For each inbox with InOrder, run once inbox renumber --after %d", after, after), nil
	}
	f := warn("new messages of "+s.of("key")+" will have numbers that consumers may have received before the restore, and new messages of lost keys will have such numbers too. An ordered inbox would treat these messages as repetitions, and skip the messages",
		"once outbox renumber --reason WHY --db "+p.URL)
	f.First = s.first
	return f, nil
}

func askForgottenMessages(ctx context.Context, p *examination) (Finding, error) {
	names, err := p.consumers(ctx)
	if err != nil {
		return Finding{}, err
	}
	s := several{len(names), names[:min(len(names), firstIDs)]}
	since := p.RestoredTo.UTC().Format(time.RFC3339)
	return s.again("no inbox has received a message",
		s.of("consumer")+" may have acknowledged messages after the moment of the backup. The effects of these messages are lost here, and the broker does not deliver the messages again by itself",
		"read the stream of the broker again from before "+since+"; or, if the sender keeps delivered messages, run for the database of the sender once outbox resend --since "+since+" --reason WHY --db URL-OF-THE-SENDER. Messages that were applied before the backup count as duplicates"), err
}

func askWebhooksAgain(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, "once_webhook_delivery d join once_webhook_event e on e.id = d.event", "1 = 1", "e.uid")
	if err != nil {
		return Finding{}, err
	}
	var endpoints int
	if err := p.DB.QueryRowContext(ctx, "select count(*) from once_webhook_endpoint where deleted_at is null").Scan(&endpoints); err != nil || endpoints == 0 {
		return Finding{}, err
	}
	f := warn(fmt.Sprintf("%s waiting at the moment of the backup may have been delivered since then. The service sends each webhook again with the same webhook-id. Later changes to %s, such as secrets, addresses and pauses, are lost", s.of("webhook"), words.Count(endpoints, "endpoint")),
		"once webhook endpoints --db "+p.URL+", and then repeat the changes of the tenants")
	f.First = s.first
	return f, nil
}

func askLettersAgain(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, "once_deadletter", "state = 'dead'", "uid")
	return s.again("the database had no dead letter at the moment of the backup",
		s.of("dead letter")+" in the backup may have been redriven or discarded since then. These decisions are lost, and later dead letters are lost too",
		"once deadletter list --db "+p.URL), err
}

func askIntentsAgain(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, "once_intent", "1 = 1", "KEY")
	return s.again("no request of a client was open at the moment of the backup",
		s.of("request")+" to other services, open at the moment of the backup, may have ended since then. A client sends each request again with the same key, unless the key has expired",
		"once journal list --db "+p.URL), err
}

func askReceiptsAgain(ctx context.Context, p *examination) (Finding, error) {
	s, err := p.several(ctx, "once_receipt", "1 = 1", "operation")
	return s.again("the service has committed no receipt",
		"receipts that were committed after the moment of the backup are lost, together with their effects. A gateway whose database was not restored replays the answers of lost operations",
		"restore the database of the gateway to the same moment, or list the lost operations in the database of the gateway: once keys list --since "+p.RestoredTo.UTC().Format(time.RFC3339)+" --db URL-OF-THE-GATEWAY"), err
}

// askForgottenAgain reports that erased data is in the restored database again. It counts the erasures in the audit.
func askForgottenAgain(ctx context.Context, p *examination) (Finding, error) {
	var n int
	if err := p.DB.QueryRowContext(ctx, "select count(*) from (select 1 from once_audit where action like '%forget%' order by id desc limit 1000) as forgotten").Scan(&n); err != nil {
		return Finding{}, err
	}
	return warn("data that was erased after the moment of the backup is in the database again, and later pauses and resumes are lost. The audit of the backup has "+words.Count(n, "erasure"),
		"repeat each request to erase data since "+words.Time(p.RestoredTo)+": once keys forget, once saga forget, once outbox forget, once receipts forget, or the method Forget of webhook.Hooks"), nil
}

var errRestoredWithoutSQL = errors.New("doctor: Config.RestoredTo needs Config.DB. Try: set Config.DB to an SQL database")
