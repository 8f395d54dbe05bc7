package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

// TestDoctorAsksNATS: what a stream lacks is said, and that a server is not there.
func TestDoctorAsksNATS(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	db, s := migrated(t, url)
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	must(t, outbox.New(s, outbox.Config{}).Add(t.Context(), tx, message.Message{Topic: "refunds", Key: "k", Type: "x"}))
	must(t, tx.Commit())
	address := natsServer(t)
	for to, says := range map[string]string{address: "No JetStream stream has the subject refunds", "nats://127.0.0.1:1": "nats://127.0.0.1:1"} {
		if f := examined(t, url, to)["outbox_destination"]; f.Verdict != doctor.VerdictWarn || !strings.Contains(f.Says, says) {
			t.Errorf("--to %s: %+v", to, f)
		}
	}
}

// TestDoctorAsksConsumers: the consumers on a NATS server that have the names of inboxes are asked for their settings, others are not.
func TestDoctorAsksConsumers(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	_, s := migrated(t, url)
	address := natsServer(t)
	conn, err := nats.Connect(address)
	must(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	must(t, err)
	for _, name := range []string{"REFUNDS", "MAILS"} {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{strings.ToLower(name)}})
		must(t, err)
	}
	consumer := func(stream string, c jetstream.ConsumerConfig) {
		t.Helper()
		_, err := js.CreateOrUpdateConsumer(t.Context(), stream, c)
		must(t, err)
	}
	found := func(verdict doctor.Verdict, says string) doctor.Finding {
		t.Helper()
		f := examined(t, url, address)["inbox_consumers"]
		if f.Verdict != verdict || !strings.Contains(f.Says, says) {
			t.Errorf("%+v, want %s: %s", f, verdict, says)
		}
		return f
	}
	consumer("MAILS", jetstream.ConsumerConfig{Durable: "another", MaxDeliver: 3})
	found("", "")                                              // it asks nothing without an inbox
	for _, name := range []string{"billing", "mails", "a.b"} { // the last of which cannot be the name of a consumer of NATS
		in := inbox.New(once.New(s, once.Config{}), inbox.Config{Consumer: name, Order: inbox.InOrder})
		_, err := in.Handle(t.Context(), message.Message{ID: "m", Source: "/shop", Topic: "refunds", Key: "k", Type: "x", Seq: 1}, func(context.Context, *sql.Tx, message.Message) error { return nil })
		must(t, err)
	}
	found(doctor.VerdictOK, "has no consumer with the name of an inbox of this database: a.b, billing, mails")
	consumer("REFUNDS", jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1000})
	found(doctor.VerdictOK, "1 consumer was checked")
	consumer("MAILS", jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1000, MaxDeliver: 3})
	if f := found(doctor.VerdictWarn, "Consumer billing of stream MAILS gives a message up after 3 deliveries"); !strings.Contains(f.Try, "max_deliver: -1") {
		t.Errorf("%s", f.Try)
	}
}

// migrated is an open database with all tables.
func migrated(t *testing.T, url string) (*sql.DB, *sqlstore.Store) {
	t.Helper()
	run(t, "migrate", "up", "--db", url).want(t, 0)
	src, err := cli.ParseSource(url)
	must(t, err)
	db, err := sqlstore.Open(src.Driver, src.DSN)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	must(t, err)
	return db, s
}

// examined runs once doctor and returns what it has found, by check.
func examined(t *testing.T, db, to string) map[string]doctor.Finding {
	t.Helper()
	o := run(t, "doctor", "-o", "json", "--db", db, "--to", to)
	var r doctor.Report
	must(t, json.Unmarshal([]byte(o.stdout), &r))
	found := map[string]doctor.Finding{}
	for _, f := range r.Findings {
		found[f.Check] = f
	}
	return found
}

// natsServer starts a NATS server, and returns its URL.
func natsServer(t *testing.T) string {
	t.Helper()
	server, err := testenv.StartNATS(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server.URL()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
