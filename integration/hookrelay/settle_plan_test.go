package hookrelay

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/webhook"
)

// few deliveries are a table of so few pages that it may be read whole.
const few = 1000

// lookups is what a statement that writes outcomes down has read to find its rows.
type lookups struct {
	rows, buffers int
	plan          string
}

var (
	changeNode = regexp.MustCompile(`(?s)(?:Delete|Update) on once_webhook_delivery d.*?(?:Nested Loop|Hash Join) .*?actual time=\S+ rows=([\d.]+).*?Buffers: shared ([^\n]*)`)
	bufferOf   = regexp.MustCompile(`(?:hit|read)=(\d+)`)
)

// explained returns how a statement finds the rows that it changes.
func (g *fixture) explained(t *testing.T, st store.Statement) (l lookups) {
	t.Helper()
	_, _, l.plan = g.explain(t, st)
	m := changeNode.FindStringSubmatch(l.plan)
	if m == nil {
		return l
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	l.rows = int(n)
	for _, b := range bufferOf.FindAllStringSubmatch(m[2], -1) {
		n, _ := strconv.Atoi(b[1])
		l.buffers += n
	}
	return l
}

// TestSettlePlans: outcomes of one delivery and of hundreds are written down by the key of each, however many deliveries wait, by plans for any arguments, with
// statistics of an empty table and with new ones. No statement asks for the fence once for each row.
func TestSettlePlans(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, waiting := range []int{few, 50_000, 100_000} {
		for _, stale := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, stale %t", waiting, stale), func(t *testing.T) {
				testSettlePlans(t, waiting, stale)
			})
		}
	}
}

func testSettlePlans(t *testing.T, waiting int, stale bool) {
	t.Helper()
	const endpoints, most, extra = 150, 5, 75 // extra are those of the fence of 64 parts, or all of a small table
	g := newFixture(t, harness.Pgx)
	g.exec(t, "alter table once_webhook_delivery set (autovacuum_enabled = false)")
	g.exec(t, "analyze once_webhook_delivery")
	list := []endpoint{{id: 1, uid: "alone", tenant: "alone"}}
	released := make(chan struct{})
	for i := range endpoints {
		uid := fmt.Sprint("ep_", i)
		list = append(list, endpoint{id: int64(i + 2), uid: uid, tenant: "a"})
		g.to.set(uid, func(int, *http.Request, http.ResponseWriter) int {
			<-released
			if i%2 == 1 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
	}
	g.endpoints(t, list...)
	g.exec(t, strings.Replace(fill, "i + $4::bigint, 0,", "i + $4::bigint, (i % $2 + 1) % 64,", 1), waiting, endpoints, 3600, 1_000_000)
	if !stale {
		g.exec(t, "vacuum analyze once_webhook_delivery")
	}
	var mu sync.Mutex
	var seen []lookups
	watch := &watch{before: func(st store.Statement) error {
		if isSettle(st) && strings.Contains(st.SQL, "unnest") { // else it is repeated, because the first statement has taken long
			l := g.explained(t, st)
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, l)
		}
		return nil
	}}
	told := newEvents()
	stop := g.start(t, watch, webhook.RelayConfig{Observer: told, Schedule: []time.Duration{time.Hour}})
	g.send(t, "alone", "one", 1)
	told.wait(t, webhook.EventDelivered, "alone", 1)
	g.send(t, "a", "many", 1)
	g.to.wait(t, "a request to each endpoint", func() bool { return len(g.to.got) == 1+endpoints })
	close(released)
	told.wait(t, webhook.EventDelivered, "", 1+endpoints/2)
	told.wait(t, webhook.EventFailed, "", endpoints/2)
	stop()
	largest := 0
	for _, l := range seen {
		largest = max(largest, l.rows)
		whole := strings.Contains(l.plan, "Seq Scan on once_webhook_delivery")
		if l.rows == 0 || l.buffers > most*l.rows+extra || whole && waiting > few {
			t.Errorf("%d rows were found by %d buffers:\n%s", l.rows, l.buffers, l.plan)
		}
	}
	if largest < endpoints/4 {
		t.Errorf("vacuous: at most %d outcomes in a statement", largest)
	}
}
