package killstorm

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReportBelievesTheDatabase: what the database has decides, whatever the clients were told.
func TestReportBelievesTheDatabase(t *testing.T) {
	t.Parallel()
	good := func(s *Storm, f *found) {
		for _, o := range s.orders {
			id := "rf_" + o.key
			f.refunds[o.amount] = []string{id}
			s.tally.answered(o, answer{http.StatusCreated, http.Header{}, []byte(`{"id":"` + id + `"}`)})
		}
		s.tally.n = counts{kills: 5, clientKills: 5, resumed: 6, dropped: 3, replayed: 9, mismatch: 2}
	}
	for name, c := range map[string]struct {
		spoil                     func(s *Storm, f *found)
		duplicates, lost, differs int
		reason                    string
	}{
		"good":     {func(*Storm, *found) {}, 0, 0, 0, ""},
		"twice":    {func(s *Storm, f *found) { f.refunds[s.orders[1].amount] = []string{"rf_" + s.orders[1].key, "rf_x"} }, 1, 0, 0, "1 refunds too many"},
		"lost":     {func(s *Storm, f *found) { delete(f.refunds, s.orders[1].amount) }, 0, 1, 0, "1 refunds lost"},
		"phantom":  {func(s *Storm, f *found) { f.refunds[s.orders[1].amount] = []string{"rf_other"} }, 0, 1, 0, "1 refunds lost"},
		"conflict": {func(s *Storm, f *found) { f.refunds[s.orders[1].amount+wrongAmount] = []string{"rf_x"} }, 1, 0, 0, "1 refunds too many"},
		"swapped": {func(s *Storm, f *found) {
			f.refunds[s.orders[1].amount+wrongAmount] = f.refunds[s.orders[1].amount]
			delete(f.refunds, s.orders[1].amount)
		}, 0, 1, 0, "1 refunds lost"},
		"stranger":  {func(_ *Storm, f *found) { f.refunds[1] = []string{"rf_x"} }, 1, 0, 0, "the database has a refund of 1 that no client has requested"},
		"other":     {func(s *Storm, _ *found) { s.tally.answered(s.orders[0], answer{status: 201}) }, 0, 0, 1, "1 responses that differ"},
		"unmarked":  {func(s *Storm, _ *found) { s.tally.differ(s.orders[0]) }, 0, 0, 1, "1 responses that differ"},
		"books":     {func(_ *Storm, f *found) { f.wrong = []string{"2 charges"} }, 0, 0, 0, "2 charges"},
		"silence":   {func(s *Storm, _ *found) { delete(s.tally.first, s.orders[2]) }, 0, 0, 0, "no client has received the outcome of refund:order-3"},
		"kills":     {func(s *Storm, _ *found) { s.tally.n.kills = 4 }, 0, 0, 0, "this run proves nothing: 4 kills"},
		"clients":   {func(s *Storm, _ *found) { s.tally.n.clientKills = 4 }, 0, 0, 0, "this run proves nothing: 4 kills of clients"},
		"resumed":   {func(s *Storm, _ *found) { s.tally.n.resumed = 0 }, 0, 0, 0, "this run proves nothing: 0 resumed intents"},
		"open":      {func(s *Storm, _ *found) { s.open = 1 }, 0, 0, 0, "1 requests whose outcome no client has received"},
		"replays":   {func(s *Storm, _ *found) { s.tally.n.replayed = 0 }, 0, 0, 0, "this run proves nothing: 0 replays"},
		"mismatch":  {func(s *Storm, _ *found) { s.tally.n.mismatch = 0 }, 0, 0, 0, "this run proves nothing: 0 refusals"},
		"delivered": {func(s *Storm, _ *found) { s.tally.n.dropped = 0 }, 0, 0, 0, "this run proves nothing: 0 dropped"},
	} {
		s := &Storm{Config: Config{Orders: 10, Kills: 5, ClientKills: 5}, tally: newTally(), orders: plan(10, 1)}
		f := found{refunds: map[int64][]string{}}
		good(s, &f)
		c.spoil(s, &f)
		r := s.report(f, time.Second)
		if r.Duplicates != c.duplicates || r.Lost != c.lost || r.ReplayDifferences != c.differs || r.OK != (c.reason == "") {
			t.Errorf("%s: %+v", name, r)
		}
		if c.reason != "" && !slices.ContainsFunc(r.Reasons, func(s string) bool { return strings.HasPrefix(s, c.reason) }) {
			t.Errorf("%s: reasons %q", name, r.Reasons)
		}
	}
}

// TestPlanIsDecidedByTheSeed: the seed decides, and the smallest storm has every kind of trouble.
func TestPlanIsDecidedByTheSeed(t *testing.T) {
	t.Parallel()
	a, b, other := plan(200, 7), plan(200, 7), plan(200, 8)
	differs := false
	for i := range a {
		if *a[i] != *b[i] {
			t.Errorf("order %d: %+v, %+v", i, a[i], b[i])
		}
		differs = differs || *a[i] != *other[i]
		if a[i].rng(7, 0).Uint64() != b[i].rng(7, 0).Uint64() || a[i].rng(7, 0).Uint64() == a[i].rng(7, 1).Uint64() {
			t.Errorf("order %d: fates do not follow from the seed", i)
		}
	}
	if !differs {
		t.Error("another seed, the same plan")
	}
	if o := plan(1, 3)[0]; o.copies < 2 || !o.again || !o.conflict {
		t.Errorf("%+v", o)
	}
	for _, orders := range []int{1, 4, 5, 500} {
		kills := planKills(5, orders, 7)
		if len(kills) != 5 || !slices.IsSorted(kills) || kills[4] >= orders {
			t.Errorf("%d orders: kills at %v", orders, kills)
		}
	}
}
