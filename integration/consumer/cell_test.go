package consumer

import (
	"testing"

	"github.com/oncelib/once/message"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
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
	"NATS":     func(t *testing.T) broker { return newJetStream(t) },
	"Kafka":    func(t *testing.T) broker { return newKafka(t, 4) },
	"Redis":    func(t *testing.T) broker { return newRedis(t, false) },
	"RabbitMQ": func(t *testing.T) broker { return newRabbit(t, quorumQueue) },
}

// onCells runs a test with every broker on every store. make prove runs NATS on pgxstore, Kafka on SQLite, and a sample of the others.
func onCells(t *testing.T, onPgx func(*testing.T, *fixture[pgxTx], broker), onSQL func(*testing.T, *fixture[sqlTx], broker)) {
	t.Helper()
	const one = 8 // of so many others
	for name, open := range brokers {
		t.Run(harness.Pgx+", "+name, func(t *testing.T) {
			if name != "NATS" {
				testenv.Sample(t, one)
			}
			t.Parallel()
			b := open(t)
			onPgx(t, newPgx(t), b)
		})
		for _, kind := range []string{harness.SQLite, harness.Postgres, harness.MariaDB, harness.MySQL} {
			t.Run(kind+", "+name, func(t *testing.T) {
				if name != "Kafka" || kind != harness.SQLite {
					testenv.Sample(t, one)
				}
				t.Parallel()
				b := open(t)
				onSQL(t, newSQL(t, kind), b)
			})
		}
	}
}
