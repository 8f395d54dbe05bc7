package killstorm

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/store/sqlstore"
)

// calmGateways is a storm in which all went well: a report, and for each mode one order and what the shop has of it.
func calmGateways() (r GatewaysReport, orders map[string]*shopIntent, b shopBooks) {
	r = GatewaysReport{ShopKills: 1, GatewayKills: 1}
	orders = map[string]*shopIntent{}
	b = shopBooks{charges: map[string]int{}, arrivals: map[string]int{}, settled: map[string]bool{}}
	for mode, charges := range map[string]int{ModeBare: 2, string(gateway.PolicyRetry): 2, string(gateway.PolicyStop): 1, string(gateway.PolicyCheck): 1} {
		o := &shopIntent{shopOrder: shopOrder{Order: mode}, struck: true, answered: mode != string(gateway.PolicyStop), unknown: mode == string(gateway.PolicyStop)}
		orders[mode] = o
		b.charges[mode], b.arrivals[mode], b.settled[mode] = charges, charges, mode == string(gateway.PolicyCheck)
	}
	return r, orders, b
}

// TestGatewaysReport: what breaks a promise is said, and so is what the storm has missed.
func TestGatewaysReport(t *testing.T) {
	t.Parallel()
	stop, check := string(gateway.PolicyStop), string(gateway.PolicyCheck)
	for reason, spoil := range map[string]func(r *GatewaysReport, orders map[string]*shopIntent, b shopBooks){
		"":                                func(*GatewaysReport, map[string]*shopIntent, shopBooks) {},
		"stop: stop is charged 2 times":   func(_ *GatewaysReport, _ map[string]*shopIntent, b shopBooks) { b.charges[stop] = 2 },
		"check: check is charged 3 times": func(_ *GatewaysReport, _ map[string]*shopIntent, b shopBooks) { b.charges[check] = 3 },
		"check: check was answered as charged, but no":             func(_ *GatewaysReport, _ map[string]*shopIntent, b shopBooks) { b.charges[check] = 0 },
		"this run proves nothing: bare has charged no order twice": func(_ *GatewaysReport, _ map[string]*shopIntent, b shopBooks) { b.charges[ModeBare] = 1 },
		"this run proves nothing: retry has charged no order twice": func(_ *GatewaysReport, _ map[string]*shopIntent, b shopBooks) {
			b.charges[string(gateway.PolicyRetry)] = 1
		},
		"this run proves nothing: the mode stop has no unknown": func(_ *GatewaysReport, o map[string]*shopIntent, _ shopBooks) {
			*o[stop] = shopIntent{answered: true, shopOrder: o[stop].shopOrder}
		},
		"this run proves nothing: no unknown outcome was": func(_ *GatewaysReport, _ map[string]*shopIntent, b shopBooks) { b.settled[check] = false },
		"this run proves nothing: no service was":         func(r *GatewaysReport, _ map[string]*shopIntent, _ shopBooks) { r.ShopKills = 0 },
		"this run proves nothing: no gateway was":         func(r *GatewaysReport, _ map[string]*shopIntent, _ shopBooks) { r.GatewayKills = 0 },
	} {
		r, orders, b := calmGateways()
		spoil(&r, orders, b)
		for mode, o := range orders {
			m := ModeReport{Mode: mode}
			m.add(o, b)
			r.Modes = append(r.Modes, m)
		}
		r.judge()
		if r.OK != (reason == "") || reason != "" && (len(r.Reasons) != 1 || !strings.HasPrefix(r.Reasons[0], reason)) {
			t.Errorf("%q: %+v", reason, r)
		}
	}
	r, orders, b := calmGateways()
	orders[check].answered, orders[check].unknown = false, true
	m := ModeReport{Mode: check}
	m.add(orders[check], b)
	r.Modes = append(r.Modes, m)
	if r.judge(); r.OK || len(m.reasons) != 1 || m.Unknown != 1 || m.ResolvedByReceipt != 0 {
		t.Errorf("an unknown outcome with receipts: %+v", r)
	}
}

// TestShopBooks: the witness counts the rows of charges, and of the first forwards that have a receipt or a tombstone.
func TestShopBooks(t *testing.T) {
	t.Parallel()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables, err := ShopTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range append(tables,
		"insert into arrival (order_id, operation) values ('a', '1'), ('a', '2'), ('b', '3'), ('b', '4'), ('c', '5')",
		"insert into charge (order_id, cents) values ('a', 7), ('c', 7), ('c', 7)",
		"insert into once_receipt (operation, status, tombstone) values ('1', 0, true), ('2', 201, false), ('4', 201, false)",
	) {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	b, err := readShopBooks(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(b), "{map[a:1 c:2] map[a:2 b:2 c:1] map[a:true]}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestEachShopMeetsEachFate: as often as each other one, whatever the seed.
func TestEachShopMeetsEachFate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := &modeStorm{frame: frame{orders: 2 * OrderStep}, mode: GatewayMode{Fronts: make([]Front, 2)}}
		s.plan(rand.New(rand.NewPCG(seed, 0)))
		for n := range 2 {
			var met []string
			for i := n; i < len(s.orders); i += 2 {
				met = append(met, s.orders[i].fate)
			}
			slices.Sort(met)
			if want := []string{"", "", "after", "after", "before", "before", "silent", "silent"}; !slices.Equal(met, want) {
				t.Errorf("seed %d: %q", seed, met)
			}
		}
	}
}
