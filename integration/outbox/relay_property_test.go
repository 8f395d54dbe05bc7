package outbox

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestRelayProperty takes random steps: messages are added, relays are started and killed, the
// destination fails, the clock of the database is set by an hour, ahead and back. In the end every message has
// arrived, and a consumer that discards what it knows has seen each key in order. What has failed before the clock was
// set back waits until a person resumes it, or the clock is there again.
func TestRelayProperty(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	t.Run("pgxstore", func(t *testing.T) {
		t.Parallel()
		testenv.Need(t, "postgresql", "faketime")
		p, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{Clock: true})
		must(t, err)
		t.Cleanup(func() { _ = p.Close() })
		must(t, p.CreateDatabase("app"))
		d := harness.Database{Kind: harness.Pgx, DSN: p.URL("app")}
		must(t, d.Migrate(t.Context(), migrations, chargeTable))
		testRelayProperty(t, openPgx(t, d), relayPlan{Database: d}, p.SetClock)
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		testenv.Need(t, "mariadb", "faketime")
		m, err := testenv.StartMariaDB(t.Context(), testenv.MariaDBConfig{Clock: true})
		must(t, err)
		t.Cleanup(func() { _ = m.Close() })
		must(t, m.CreateDatabase("app"))
		d := harness.Database{Kind: harness.MariaDB, DSN: m.DSN("app")}
		must(t, d.Migrate(t.Context(), migrations, chargeTable))
		testRelayProperty(t, openSQL(t, d), relayPlan{Database: d}, m.SetClock)
	})
}

func testRelayProperty[TX any](t *testing.T, g *fixture[TX], plan relayPlan, setClock func(ahead time.Duration) error) {
	const steps, keys, most = 80, 5, 3
	random := rand.New(rand.NewPCG(1, 0))
	c := newConsumer(t, &plan)
	plan.TTL = 300 * time.Millisecond
	committed, counts := map[string]bool{}, map[string]int{}
	var relays []*harness.Child
	add := func() {
		m, id := withID(event("refunds", fmt.Sprint(random.IntN(keys)), "t"))
		free, freeID := withID(event("mails", "", "t"))
		g.mustAdd(t, m, free)
		committed[id], committed[freeID] = true, true
	}
	for range steps {
		switch n := random.IntN(10); {
		case n < 4:
			for range 1 + random.IntN(5) {
				add()
			}
		case n < 6 && len(relays) < most:
			counts["starts"]++
			p := plan
			if random.IntN(3) == 0 {
				p.KillAt = 1 + random.Int64N(60)
			}
			relays = append(relays, harness.Start(t, p))
		case n == 6 && len(relays) > 0:
			counts["kills"]++
			relays[0].Kill()
			relays = relays[1:]
		case n == 7:
			counts["clock steps"]++
			must(t, setClock([]time.Duration{time.Hour, 0, -time.Hour}[random.IntN(3)]))
		default: // relays have time to deliver something
			arrived, end := len(c.arrived(t)), time.Now().Add(500*time.Millisecond)
			for len(relays) > 0 && len(c.arrived(t)) == arrived && time.Now().Before(end) {
				<-time.After(5 * time.Millisecond)
			}
		}
	}
	must(t, setClock(time.Duration(random.IntN(3)-1)*time.Hour))
	for _, r := range relays {
		r.Kill()
	}
	plan.Timeout, plan.TTL = patience, 3*time.Second
	final := harness.Start(t, plan)
	if n, _ := c.met(); n == 0 {
		waitMet(t, c)
	}
	c.setCalm()
	// The next attempt of what failed before the clock was set back is far ahead.
	for _, topic := range []string{"refunds", "mails"} { // a mail fails if its relay was paused while it read the answer
		_, err := g.box.Resume(t.Context(), topic, "")
		must(t, err)
	}
	g.waitEmpty(t)
	final.Drain(t)
	arrived := c.arrived(t)
	v := judge(committed, arrived)
	_, met := c.met()
	testenv.Reportf(t, "%d messages, %d deliveries, %d duplicates, %d lost, %d out of order; %v; %s", len(committed), len(arrived), v.duplicates, v.lost, v.outOfOrder, counts, met)
	if v.lost > 0 || v.outOfOrder > 0 {
		t.Errorf("%d messages are lost, %d are out of order", v.lost, v.outOfOrder)
	}
	if counts["kills"] < 3 || counts["clock steps"] < 3 {
		t.Errorf("vacuous: %v", counts)
	}
}
