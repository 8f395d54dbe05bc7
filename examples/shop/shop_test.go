package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/testenv"
)

// asMain in the environment makes the test binary the program: what the tests run are real processes, and so are the services that these start.
const asMain = "ONCE_SHOP_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	testenv.Main(m)
}

// TestShopSurvivesTheKillScript: while both services are killed by the kill script, each order is placed once and shipped once. An order that cannot be shipped is a dead
// letter: those of its customer wait for it, those of others do not, and a redrive ships all of them in their order.
func TestShopSurvivesTheKillScript(t *testing.T) {
	testenv.Both(t)
	t.Run("SQLite", func(t *testing.T) {
		testenv.Cell(t, testenv.InTest)
		newShop(t).survives(t, "40", "2")
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		testenv.Cell(t, testenv.InProve)
		newShop(t, "-orders-db", testenv.NewDatabase(t), "-shipping-db", testenv.NewDatabase(t)).survives(t, "120", "5")
	})
}

// shop is a running one.
type shop struct {
	*config

	args []string
	db   *sql.DB // of shipping
	said *bytes.Buffer
}

// newShop starts the program, and ends it with the test: both services must end well.
func newShop(t *testing.T, args ...string) shop {
	t.Helper()
	dir := t.TempDir()
	s := shop{config: newConfig(), args: append([]string{"-dir", dir, "-port", freePorts(t)}, args...), said: new(bytes.Buffer)}
	must(t, s.flags.Parse(s.args))
	s.useFiles()
	cmd := program(t, s.args...)
	cmd.Stdout, cmd.Stderr = s.said, s.said
	must(t, cmd.Start())
	t.Cleanup(func() {
		must(t, cmd.Process.Signal(os.Interrupt))
		if err := cmd.Wait(); err != nil {
			t.Errorf("the shop has ended with %v:\n%s", err, s.said)
		}
	})
	return s
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), self, args...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	return cmd
}

func (s shop) survives(t *testing.T, orders, kills string) {
	t.Helper()
	text, err := program(t, append([]string{"kill", "-orders", orders, "-kills", kills}, s.args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("the kill script: %v\n%s\nthe shop:\n%s", err, text, s.said)
	}
	for _, want := range []string{kills + "  times orders was killed", kills + "  times shipping was killed", orders + "  orders are shipped", "\nOK: "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	s.redrives(t)
}

// redrives: an item without a shelf.
func (s shop) redrives(t *testing.T) {
	t.Helper()
	db, store, err := open(t.Context(), *s.database["shipping"], nil)
	must(t, err)
	defer db.Close()
	s.db = db
	for _, o := range []string{`{"customer":"wile","item":"anvil"}`, `{"customer":"wile","item":"tea"}`, `{"customer":"ada","item":"coffee"}`} {
		s.request(t, http.MethodPost, s.serving(0)+"/orders", o, http.StatusCreated)
	}
	letters := deadletter.New(store, deadletter.Config{})
	var dead []deadletter.Letter
	until(t, "a dead letter", func() bool {
		dead, _, err = letters.List(t.Context(), deadletter.Filter{Consumer: "shipping"})
		must(t, err)
		return len(dead) == 1
	})
	if !strings.Contains(dead[0].Error, `no shelf has the item "anvil"`) || dead[0].Key != "wile" {
		t.Errorf("%+v", dead[0])
	}
	until(t, "the order of another customer", func() bool { return slices.Equal(s.shipped(t, "ada"), []string{"coffee"}) })
	if got := s.shipped(t, "wile"); len(got) > 0 {
		t.Errorf("shipped before the dead letter: %v", got)
	}
	until(t, "a metric of the letter", func() bool {
		return strings.Contains(s.request(t, http.MethodGet, s.metrics(1)+"/metrics", "", http.StatusOK), "once_dead_letters 1")
	})
	s.request(t, http.MethodPut, s.serving(1)+"/shelves/anvil/B1", "", http.StatusNoContent)
	_, err = letters.Redrive(t.Context(), deadletter.Filter{Consumer: "shipping"}, deadletter.RedriveOptions{Who: "ada", Reason: "anvils have a shelf"})
	must(t, err)
	until(t, "all that was redriven", func() bool { return len(s.shipped(t, "wile")) >= 2 })
	if got := s.shipped(t, "wile"); !slices.Equal(got, []string{"anvil", "tea"}) {
		t.Errorf("shipped: %v", got)
	}
}

// shipped are the items that a customer has got, in their order by the events of orders.
func (s shop) shipped(t *testing.T, customer string) (items []string) {
	t.Helper()
	rows, err := read(t.Context(), s.db, "select item from shipment where customer = $1 order by shipped_at", customer)
	must(t, err)
	for _, row := range rows {
		items = append(items, row[0])
	}
	return items
}

// request repeats a request until the service is there.
func (s shop) request(t *testing.T, method, url, body string, want int) (text string) {
	t.Helper()
	key := once.NewKey()
	until(t, method+" "+url, func() bool {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+url, strings.NewReader(body))
		must(t, err)
		r.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		text = string(b)
		return err == nil && resp.StatusCode == want
	})
	return text
}

// TestCountSeesLostAndRepeatedOrders: the kill script sees what is lost, too many or made up.
func TestCountSeesLostAndRepeatedOrders(t *testing.T) {
	cfg := newConfig()
	cfg.dir = t.TempDir()
	cfg.useFiles()
	databases := map[string]*sql.DB{}
	for _, s := range services {
		db, _, err := open(t.Context(), *cfg.database[s.name], s.tables)
		must(t, err)
		defer db.Close()
		databases[s.name] = db
	}
	storm := storm{config: cfg, orders: 3, buyers: "storm-x-", killed: make([]int, len(services))}
	exec := func(service, statement string) {
		t.Helper()
		_, err := databases[service].ExecContext(t.Context(), statement)
		must(t, err)
	}
	counts := func(want count, ok bool) {
		t.Helper()
		got, err := storm.count(t.Context(), databases)
		must(t, err)
		if err := storm.report(io.Discard, got); got != want || (err == nil) != ok {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	for n := range 3 {
		exec("orders", fmt.Sprintf("insert into purchase (id, customer, item, state) values ('o%d', 'storm-x-%d', 'tea', 'shipped')", n, n))
		exec("shipping", fmt.Sprintf("insert into shipment (id, order_id, customer, item, shelf, shipped_at) values ('s%d', 'o%d', 'storm-x-%d', 'tea', 'A1', 'now')", n, n, n))
	}
	exec("orders", "insert into purchase (id, customer, item, state) values ('other', 'ada', 'tea', 'placed')")
	counts(count{placed: 3, told: 3, shipped: 3}, true)
	exec("shipping", "insert into shipment (id, order_id, customer, item, shelf, shipped_at) values ('again', 'o1', 'storm-x-1', 'tea', 'A1', 'now')")
	counts(count{placed: 3, told: 3, shipped: 3, twice: 1}, false)
	exec("shipping", "delete from shipment where order_id = 'o1'")
	counts(count{placed: 3, told: 3, shipped: 2, lost: 1}, false)
	exec("shipping", "insert into shipment (id, order_id, customer, item, shelf, shipped_at) values ('made up', 'o9', 'storm-x-1', 'tea', 'A1', 'now')")
	counts(count{placed: 3, told: 3, shipped: 2, lost: 1, phantoms: 1}, false)
	exec("orders", "update purchase set state = 'placed' where id = 'o2'")
	counts(count{placed: 3, told: 2, shipped: 2, lost: 1, phantoms: 1}, false)
}

// TestCommandLine: what is wrong is answered with what to try.
func TestCommandLine(t *testing.T) {
	for line, says := range map[string]string{"dance": "Try: kill", "kill -orders 10 -kills 5": "Try: -orders 20"} {
		text, err := program(t, strings.Fields(line)...).CombinedOutput()
		if err == nil || !strings.Contains(string(text), says) {
			t.Errorf("shop %s: %v\n%s", line, err, text)
		}
	}
}

// freePorts is the first of five free ports. They are below those that the servers of other tests take.
func freePorts(t *testing.T) string {
	t.Helper()
	for first := 3_000 + 5*(os.Getpid()%500); first < 6_000; first += 5 {
		free := 0
		for i := range 5 {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+i)))
			if err == nil {
				must(t, l.Close())
				free++
			}
		}
		if free == 5 {
			return strconv.Itoa(first)
		}
	}
	t.Fatal("there are no five free ports")
	return ""
}

// until waits for something that other processes do.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	hangs, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // only a test that hangs reaches it
	defer cancel()
	for !is() {
		select {
		case <-look.C:
		case <-hangs.Done():
			t.Fatalf("%s: it does not come", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
