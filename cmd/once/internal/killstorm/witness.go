package killstorm

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Witness counts the effects in the database of the service. It does not trust the service: it shares no code with it, and asks only the
// database.
type Witness struct {
	DB *sql.DB

	// Question says that parameters are question marks.
	Question bool

	// Tables is a query of the names of the tables.
	Tables string

	// Quiet returns how many sessions of killed servers the database has not ended yet. Nil means that a session ends with its process.
	Quiet func(ctx context.Context) (sessions int, err error)
}

// found is what the witness has seen.
type found struct {
	refunds map[int64][]string // the IDs of refunds, by amount
	entries int                // entries of the ledger
	wrong   []string           // the inconsistencies, as sentences
}

// count reads the refunds and the ledger of the tenant. No server may be running.
func (w Witness) count(ctx context.Context, tenant string) (found, error) {
	f := found{refunds: map[int64][]string{}}
	if err := w.await(ctx); err != nil {
		return f, err
	}
	query, args := w.about(tenant, "select id, amount from refund where tenant = $1 order by id")
	rows, err := w.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return f, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var amount int64
		if err := rows.Scan(&id, &amount); err != nil {
			return f, err
		}
		f.refunds[amount] = append(f.refunds[amount], id)
	}
	if err := rows.Err(); err != nil {
		return f, err
	}
	return f, w.add(ctx, tenant, &f)
}

// effects returns the number of refunds of the tenant. No server may be running.
func (w Witness) effects(ctx context.Context, tenant string) (n int, err error) {
	if err := w.await(ctx); err != nil {
		return 0, err
	}
	query, args := w.about(tenant, "select count(*) from refund where tenant = $1")
	err = w.DB.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// await waits until the database has ended the transactions of killed servers.
func (w Witness) await(ctx context.Context) error {
	if w.Quiet == nil {
		return nil
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		n, err := w.Quiet(ctx)
		if err != nil || n == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d sessions of a killed server are still open in the database", n)
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// add checks that the books are balanced: each refund has one debit and one credit with its amount, and each charge has the sum of its
// refunds.
func (w Witness) add(ctx context.Context, tenant string, f *found) error {
	checks := []struct{ sql, sentence string }{
		{`select count(*) from refund r left join (
				select refund_id, count(*) as n,
					sum(case direction when 'debit' then amount else 0 end) as debit,
					sum(case direction when 'credit' then amount else 0 end) as credit
				from ledger_entry where tenant = $1 group by refund_id
			) e on e.refund_id = r.id
			where r.tenant = $1 and (e.n is null or e.n <> 2 or e.debit <> r.amount or e.credit <> r.amount)`,
			"refunds without exactly one debit and one credit"},
		{`select count(*) from ledger_entry e where tenant = $1 and not exists (
			select 1 from refund r where r.tenant = e.tenant and r.id = e.refund_id)`, "ledger entries without a refund"},
		{`select count(*) from charge c where tenant = $1 and refunded <> (
			select coalesce(sum(amount), 0) from refund r where r.tenant = c.tenant and r.charge_id = c.id)`, "charges with a wrong sum of refunds"},
	}
	for _, c := range checks {
		var n int
		query, args := w.about(tenant, c.sql)
		if err := w.DB.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
			return fmt.Errorf("%s: %w", c.sentence, err)
		}
		if n > 0 {
			f.wrong = append(f.wrong, fmt.Sprintf("%d %s", n, c.sentence))
		}
	}
	query, args := w.about(tenant, "select count(*) from ledger_entry where tenant = $1")
	return w.DB.QueryRowContext(ctx, query, args...).Scan(&f.entries)
}

// about returns a query with the tenant for $1, and its arguments. One question mark is one argument, so with question marks the
// tenant is repeated.
func (w Witness) about(tenant, query string) (string, []any) {
	args := []any{tenant}
	if !w.Question {
		return query, args
	}
	return strings.ReplaceAll(query, "$1", "?"), slices.Repeat(args, strings.Count(query, "$1"))
}
