package home

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/home"
	"github.com/oncelib/once/integration/harness"
)

// TestMoveThatFailedIsNotNews: a move fails before the home has heard of it. The target has a later epoch and yet claims nothing, all regions go on to answer from the home, and
// that the move is given up repairs databases to which an earlier version has written the claim.
func TestMoveThatFailedIsNotNews(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		v := serve(t)
		tenant := hashed("eu", 0)
		m := home.Mover{Regions: v.s.mover(nil).Regions}
		var before, pin home.Pin
		m.Publish = func(_ context.Context, _ string, p home.Pin) error { before = p; return nil }
		must(t, m.Move(t.Context(), tenant, "us"))
		asked := map[string]bool{}
		all := func(when string, rounds int) {
			t.Helper()
			for round := range rounds {
				for _, region := range []string{"eu", "ap", "us"} {
					key := fmt.Sprint(when, " round ", round, " in ", region)
					if answer, status := v.ask(t, region, tenant, key); round > 0 && (status != http.StatusOK || answer != "executed in us") {
						t.Errorf("%t: %s: %d %s", claimed, key, status, answer)
					}
				}
			}
		}
		all("before", 2)
		harness.Exec(t, v.s["us"].db, "create trigger broken before insert on once_home_move begin select raise(abort, 'broken'); end")
		if err := m.Move(t.Context(), tenant, "eu"); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Fatalf("the move has not failed: %v", err)
		}
		harness.Exec(t, v.s["us"].db, "drop trigger broken")
		if claimed {
			harness.Exec(t, v.s["eu"].db, "update once_home set region = 'eu'")
			v.restart(v.s["eu"])
			if _, status := v.ask(t, "eu", tenant, "claimed"); status != http.StatusServiceUnavailable || v.s["eu"].known.Home(tenant).Region != "eu" {
				t.Fatalf("%d, and the map says %v: the test shows nothing", status, v.s["eu"].known.Home(tenant))
			}
		} else {
			all("failed", 3)
			for _, r := range v.s {
				v.restart(r)
			}
			for _, region := range []string{"us", "ap", "us", "ap", "eu"} { // the process in eu knows nothing, and the others do not need it
				answer, status := v.ask(t, region, tenant, "restarted in "+region)
				if here := status == http.StatusOK && answer == "executed in us"; here != asked[region] {
					t.Errorf("restarted, in %s: %d %s", region, status, answer)
				}
				asked[region] = region != "eu"
			}
			if !v.s["eu"].known.Pin(tenant, before) {
				t.Errorf("a late file of pins does not change the map, which says %v", v.s["eu"].known.Home(tenant))
			}
			if answer, status := v.ask(t, "eu", tenant, "after the pin"); answer != "executed in us" {
				t.Errorf("after the pin, in eu: %d %s", status, answer)
			}
		}
		m.Publish = func(_ context.Context, _ string, p home.Pin) error { pin = p; return nil }
		must(t, m.Move(t.Context(), tenant, "us")) // which gives the move up
		all("given up", 3)
		again := pin
		must(t, m.Move(t.Context(), tenant, "us"))
		if list, err := m.Show(t.Context(), tenant); err != nil || again != pin || slices.MaxFunc(list, func(a, b home.Standing) int { return cmp.Compare(a.Epoch, b.Epoch) }).Epoch > pin.Epoch {
			t.Errorf("%t: the pins %v and %v were published, and the databases have %v, %v", claimed, again, pin, list, err)
		}
		for _, r := range v.s {
			v.restart(r)
		}
		all("restarted", 3)
		must(t, m.Move(t.Context(), tenant, "eu"))
		if p := pin; p.Region != "eu" || p.Epoch <= again.Epoch {
			t.Errorf("%t: after a move that has ended, the pin is %v", claimed, p)
		}
	}
}
