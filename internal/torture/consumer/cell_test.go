package consumer

import (
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// broker delivers to consumer processes.
type broker interface {
	into(p *plan)                                 // says how a process reaches it
	points() []int64                              // at which a process is killed: in handlers, after commits, around acknowledgements
	publish(t *testing.T, list []message.Message) // until it has them
	repeat(t *testing.T, list []message.Message)  // publishes them once more, as other messages
	disturb() error                               // breaks something
	waitDone(t *testing.T)                        // waits until all messages are acknowledged
}

var brokers = map[string]func(t *testing.T) broker{
	"NATS":  func(t *testing.T) broker { return newJetStream(t) },
	"Kafka": func(t *testing.T) broker { return newKafka(t, 4) },
}

// sqlStores are the databases of package sqlstore, each with its driver.
var sqlStores = map[string]struct {
	driver string
	dsn    func(tb testing.TB) string
}{
	"SQLite":               {"sqlite", sqliteFile},
	"PostgreSQL, sqlstore": {"pgx", testenv.NewDatabase},
	"MariaDB":              {"mysql", testenv.NewMariaDB},
	"MySQL":                {"mysql", testenv.NewMySQL},
}

// onCells runs a test with every broker on every store. make prove runs NATS on pgxstore, Kafka on SQLite, and a sample of the others.
func onCells(t *testing.T, onPgx func(*testing.T, *ground[pgxTx], broker), onSQL func(*testing.T, *ground[sqlTx], broker)) {
	t.Helper()
	const one = 8 // of so many others
	for name, open := range brokers {
		t.Run("pgxstore, "+name, func(t *testing.T) {
			if name != "NATS" {
				testenv.Sample(t, one)
			}
			t.Parallel()
			b := open(t)
			onPgx(t, newPgx(t), b)
		})
		for store, c := range sqlStores {
			t.Run(store+", "+name, func(t *testing.T) {
				if name != "Kafka" || store != "SQLite" {
					testenv.Sample(t, one)
				}
				t.Parallel()
				b := open(t)
				onSQL(t, newSQL(t, c.driver, c.dsn(t)), b)
			})
		}
	}
}
