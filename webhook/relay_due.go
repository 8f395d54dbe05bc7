package webhook

import (
	"strconv"
	"strings"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// due returns the statement that reads the due deliveries of asks: endpoint, event, attempts, cause, due time,
// and 1 if that time has come. The limit is part of the text: with an argument the planner would expect a tenth
// of all rows, and would sort them. Without bounds the statement reads from the first row of each endpoint.
func (r *Relay) due(asks []ask, bounds bool) store.Statement {
	if r.db.Dialect() == sqlplane.PostgreSQL {
		return r.dueArrays(asks, bounds)
	}
	var text strings.Builder
	for i, a := range asks {
		if i > 0 {
			text.WriteString(" union all ")
		}
		from := ""
		if bounds {
			from = " and due_at >= " + strconv.FormatInt(a.from.due/1000, 10)
			if a.ordered {
				from = " and event >= " + strconv.FormatInt(a.from.event, 10)
			}
		}
		text.WriteString("select * from (" + dueOf(strconv.FormatInt(a.target.id, 10), a.limit, a.ordered, from) + ") d" + strconv.Itoa(i))
	}
	return r.text(text.String())
}

// dueOf selects the due deliveries of one endpoint. For an ordered endpoint it selects the first delivery, even
// if its time has not come.
func dueOf(endpoint string, limit int, ordered bool, from string) string {
	const columns = "select endpoint, event, attempts, cause, due_at, case when due_at <= NOW then 1 else 0 end from once_webhook_delivery where endpoint = "
	if ordered {
		return columns + endpoint + " and due_at is not null" + from + " order by event limit 1"
	}
	return columns + endpoint + " and due_at <= NOW" + from + " order by due_at, event limit " + strconv.Itoa(limit)
}

// dueArrays is due for PostgreSQL. It rounds limits up to a power of four, so that there are only a few texts
// for any number of endpoints.
func (r *Relay) dueArrays(asks []ask, bounds bool) store.Statement {
	type class struct {
		limit   int
		ordered bool
	}
	endpoints := map[class][][]any{}
	for _, a := range asks {
		of := class{1, a.ordered}
		for !a.ordered && of.limit < a.limit {
			of.limit *= 4
		}
		row := []any{a.target.id}
		if bounds {
			row = append(row, a.from.due, a.from.event)
		}
		endpoints[of] = append(endpoints[of], row)
	}
	columns, from := "?::text::bigint[]) x(id)", map[bool]string{}
	if bounds {
		columns = "?::text::bigint[], ?::text::bigint[], ?::text::bigint[]) x(id, due, event)"
		from = map[bool]string{true: " and event >= x.event", false: " and (due_at, event) >= (timestamptz 'epoch' + x.due * interval '1 microsecond', x.event)"}
	}
	var text strings.Builder
	var args []any
	for limit := 1; limit <= 1<<20; limit *= 4 {
		for _, ordered := range []bool{false, true} {
			list := endpoints[class{limit, ordered}]
			if len(list) == 0 {
				continue
			}
			if text.Len() > 0 {
				text.WriteString(" union all ")
			}
			text.WriteString("select d.* from unnest(" + columns + " cross join lateral (" + dueOf("x.id", limit, ordered, from[ordered]) + ") d")
			args = append(args, dialect.Arrays(list)...)
		}
	}
	return r.text(text.String(), args...)
}
