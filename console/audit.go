package console

import (
	"strconv"

	"github.com/oncelib/once/operate"
)

// auditBody is a page of the acts of operators.
type auditBody struct {
	Rows []operate.Entry
	Next string
}

func (q *request) audit() error {
	after := q.URL.Query().Get("after")
	if _, err := strconv.ParseInt(after, 10, 64); after != "" && err != nil {
		return errNotFound
	}
	p, err := q.Operate.Keys.Audit(q.ctx, operate.AuditFilter{Window: operate.Window{After: after}})
	if err != nil {
		return err
	}
	body := auditBody{Rows: p.Items}
	if p.Next != "" {
		body.Next = link("audit", "after", p.Next)
	}
	return q.render("audit", "Audit", body)
}
