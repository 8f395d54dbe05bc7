package killstorm

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/oncelib/once/gateway"
)

// GatewaysReport is the result of a storm over gateways. Its JSON form is a contract with scripts.
type GatewaysReport struct {
	Modes []ModeReport `json:"modes"`
	OK    bool         `json:"ok"` // stop and check have kept their promises, and the other modes have charged something twice

	ShopKills    int           `json:"-"`
	GatewayKills int           `json:"-"`
	Took         time.Duration `json:"-"`
	Reasons      []string      `json:"-"`
}

// ModeReport is the result of the storm in one mode.
type ModeReport struct {
	Mode              string `json:"mode"`
	Requests          int    `json:"requests"` // of the clients
	Forwards          int    `json:"forwards"` // requests that have reached a shop
	DoubleEffects     int    `json:"double_effects"`
	Unknown           int    `json:"unknown"` // orders whose client knows only that the outcome is unknown
	ResolvedByReceipt int    `json:"resolved_by_receipt"`
	OK                bool   `json:"ok"`

	reasons []string
}

// shopBooks is what the database of a shop contains.
type shopBooks struct {
	charges  map[string]int // number of charges, by order
	arrivals map[string]int
	settled  map[string]bool // orders with a receipt or a tombstone of their first forward
}

// readShopBooks reads the database of a shop whose process has ended.
func readShopBooks(ctx context.Context, db *sql.DB) (b shopBooks, err error) {
	b = shopBooks{map[string]int{}, map[string]int{}, map[string]bool{}}
	for _, q := range []struct {
		query string
		put   func(order string, n int)
	}{
		{"select order_id, count(*) from charge group by order_id", func(order string, n int) { b.charges[order] = n }},
		{"select order_id, count(*) from arrival group by order_id", func(order string, n int) { b.arrivals[order] = n }},
		{"select a.order_id, 1 from arrival a join once_receipt r on r.operation = a.operation where a.rowid = (select min(rowid) from arrival where order_id = a.order_id)", func(order string, _ int) { b.settled[order] = true }},
	} {
		if err := (Witness{DB: db}).each(ctx, q.query, func(row func(...any) error) error {
			var order string
			var n int
			err := row(&order, &n)
			q.put(order, n)
			return err
		}); err != nil {
			return b, err
		}
	}
	return b, nil
}

// count compares the databases of the shops of a mode with what the clients know.
func (s *modeStorm) count(ctx context.Context, r *GatewaysReport) error {
	m := ModeReport{Mode: s.mode.Name, Requests: int(s.sent.Load())}
	for n, f := range s.mode.Fronts {
		b, err := readShopBooks(ctx, f.Books)
		if err != nil {
			return fmt.Errorf("the check of the database has failed: %w", err)
		}
		for i := n; i < len(s.orders); i += len(s.mode.Fronts) {
			m.add(s.orders[i], b)
		}
	}
	m.OK = len(m.reasons) == 0
	r.Modes = append(r.Modes, m)
	r.ShopKills += s.shopDied
	for _, kills := range s.kills {
		r.GatewayKills += kills
	}
	return nil
}

// add counts one order.
func (m *ModeReport) add(o *shopIntent, b shopBooks) {
	complain := func(format string, args ...any) {
		m.reasons = append(m.reasons, fmt.Sprintf("%s: %s ", m.Mode, o.Order)+fmt.Sprintf(format, args...))
	}
	charges := b.charges[o.Order]
	m.Forwards += b.arrivals[o.Order]
	m.DoubleEffects += max(0, charges-1)
	switch {
	case charges > 1:
		complain("is charged %d times", charges)
	case o.answered && charges == 0:
		complain("was answered as charged, but no charge exists")
	case o.unknown && m.Mode == string(gateway.PolicyCheck):
		complain("has an unknown outcome, although the service writes receipts")
	}
	switch {
	case o.unknown:
		m.Unknown++
	case o.struck && o.answered && b.settled[o.Order]: // its first answer was lost, and the receipt has shown the outcome
		m.ResolvedByReceipt++
	}
}

// judge fills in OK and the reasons. A storm proves nothing if nothing went wrong without a gateway, or if no outcome was unknown.
func (r *GatewaysReport) judge() {
	vacuous := func(isMissing bool, sentence string) {
		if isMissing {
			r.Reasons = append(r.Reasons, "this run proves nothing: "+sentence+". Try: use a larger --ops")
		}
	}
	for _, m := range r.Modes {
		switch m.Mode {
		case ModeBare, string(gateway.PolicyRetry):
			vacuous(m.DoubleEffects == 0, m.Mode+" has charged no order twice, so this run shows no difference")
			continue
		case string(gateway.PolicyStop):
			vacuous(m.Unknown == 0, "the mode stop has no unknown outcome, so this run shows no difference")
		case string(gateway.PolicyCheck):
			vacuous(m.ResolvedByReceipt == 0, "no unknown outcome was resolved by a receipt, so this run shows no difference")
		}
		r.Reasons = append(r.Reasons, m.reasons...)
	}
	vacuous(r.ShopKills == 0, "no service was killed")
	vacuous(r.GatewayKills == 0, "no gateway was killed")
	r.OK = len(r.Reasons) == 0
}
