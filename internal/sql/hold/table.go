package hold

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// table accesses the tables of parts and of nodes, for one node. The statements call them once_hold and once_hold_node. Each
// method is one statement, and one round trip. All times are by the clock of the database.
type table struct {
	db       sqlplane.Database
	name     string // the name of the table of parts
	work     string
	node     string
	ttl      time.Duration
	patience time.Duration // the time limit of one statement
}

// view contains the parts of all nodes at one time.
type view struct {
	now     time.Time     // the time of the database
	parts   []partRow     // sorted by number
	live    []string      // nodes that have not expired, and want parts
	leaving []string      // nodes that have not expired, and release their parts
	dead    []string      // nodes that have expired
	ahead   []nodeTTL     // nodes that expire later than is possible by this clock, because the clock was set back
	longest time.Duration // the longest TTL of a node
}

type partRow struct {
	Part
	node string
}

// nodeTTL is a node with its own TTL from the table. Processes may have different TTLs.
type nodeTTL struct {
	node string
	ttl  time.Duration
}

// fromNow returns the argument of the macro AGO for the time now + ttl, at which a row that is renewed now expires.
func (t *table) fromNow() int64 { return -t.ttl.Microseconds() }

// text returns query with the real names of the tables, in the SQL of the database.
func (t *table) text(query string) string {
	return dialect.Text(t.db.Dialect(), strings.ReplaceAll(query, Table, t.name))
}

func (t *table) exec(ctx context.Context, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	_, err := t.db.Pool().Exec(ctx, store.Statement{SQL: t.text(query), Args: args})
	return err
}

// renew extends the life of this node, which also extends its hold on all its parts. A node that is leaving says so.
func (t *table) renew(ctx context.Context, leaving bool) error {
	n := 0
	if leaving {
		n = 1
	}
	return t.exec(ctx, `insert into once_hold_node (work, node, expires, leaving, ttl) values (?, ?, AGO(?), ?, ?)
 UPSERT(work, node) expires = NEW(expires), leaving = NEW(leaving), ttl = NEW(ttl)`, t.work, t.node, t.fromNow(), n, t.ttl.Microseconds())
}

// look reads both tables.
func (t *table) look(ctx context.Context) (v view, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	query := t.text(`select part, node, fence, 0, 0, 0, NOW, NOW from once_hold where work = ?
 union all
 select -1, node, 0, leaving, case when expires > NOW then 1 else 0 end, coalesce(ttl, 0), expires, NOW from once_hold_node where work = ?`)
	err = t.db.Pool().Query(ctx, store.Statement{SQL: query, Args: []any{t.work, t.work}}, func(row sqlplane.Row) error {
		var p partRow
		var leaving, lives int
		var ttl int64
		var expires time.Time
		if err := row.Scan(&p.Number, &p.node, &p.Fence, &leaving, &lives, &ttl, (*dialect.Time)(&expires), (*dialect.Time)(&v.now)); err != nil {
			return err
		}
		if p.Number < 0 {
			of := nodeTTL{p.node, t.ttl} // a node of an earlier release has not written its TTL
			if ttl > 0 {
				of.ttl = time.Duration(ttl) * time.Microsecond
			}
			v.longest = max(v.longest, of.ttl)
			// No renewal sets such a time, so the clock of the database was set back.
			if expires.After(v.now.Add(of.ttl)) {
				v.ahead = append(v.ahead, of)
			}
		}
		switch {
		case p.Number >= 0:
			v.parts = append(v.parts, p)
		case lives == 0:
			v.dead = append(v.dead, p.node)
		case leaving == 1:
			v.leaving = append(v.leaving, p.node)
		default:
			v.live = append(v.live, p.node)
		}
		return nil
	})
	slices.SortFunc(v.parts, func(a, b partRow) int { return a.Number - b.Number })
	return v, err
}

// create inserts the rows of parts that do not exist.
func (t *table) create(ctx context.Context, numbers []int) error {
	var args []any
	for _, n := range numbers {
		args = append(args, t.work, n)
	}
	return t.exec(ctx, `insert into once_hold (work, part, node, fence) values (?, ?, '', 0)`+
		strings.Repeat(`, (?, ?, '', 0)`, len(numbers)-1)+` KEEP(work)`, args...)
}

// take gives parts to this node if their fences have not changed and no live node holds them. It skips a part whose row is
// locked, perhaps by a process that was stopped in a transaction. The sub-select has a limit, because MySQL does not change
// a table that a sub-select reads directly.
func (t *table) take(ctx context.Context, parts []Part) error {
	return t.exec(ctx, `update once_hold set node = ?, fence = fence + 1 where work = ? and part in (select part from (select h.part from once_hold h
 where h.work = ? and (h.part = ? and h.fence = ?`+strings.Repeat(` or h.part = ? and h.fence = ?`, len(parts)-1)+`)
 and not exists (select 1 from once_hold_node n where n.work = h.work and n.node = h.node and n.expires > NOW)
 order by h.part limit 100000 FOR UPDATE SKIP LOCKED) free)`, append([]any{t.node, t.work}, fenced(t.work, parts)...)...)
}

// letGo makes parts of this node free. Their fences stay the same. Until another node takes a part, a late statement of this
// node does no harm.
func (t *table) letGo(ctx context.Context, parts []Part) error {
	return t.exec(ctx, `update once_hold set node = '' where node = ? and work = ? and (part = ? and fence = ?`+
		strings.Repeat(` or part = ? and fence = ?`, len(parts)-1)+`)`, append([]any{t.node}, fenced(t.work, parts)...)...)
}

// leave deletes the row of this node, so that all its parts are free.
func (t *table) leave(ctx context.Context) error {
	return t.exec(ctx, `delete from once_hold_node where work = ? and node = ?`, t.work, t.node)
}

// forget deletes the rows of nodes that have expired.
func (t *table) forget(ctx context.Context, nodes []string) error {
	args := []any{t.work}
	for _, n := range nodes {
		args = append(args, n)
	}
	return t.exec(ctx, `delete from once_hold_node where work = ? and node in (?`+strings.Repeat(`, ?`, len(nodes)-1)+`) and expires <= NOW`, args...)
}

// bringBack makes a node expire within its TTL. Otherwise a dead node would seem to live longer after the clock was set back,
// by the same time.
func (t *table) bringBack(ctx context.Context, n nodeTTL) error {
	most := -n.ttl.Microseconds()
	return t.exec(ctx, `update once_hold_node set expires = AGO(?) where work = ? and node = ? and expires > AGO(?)`, most, t.work, n.node, most)
}
