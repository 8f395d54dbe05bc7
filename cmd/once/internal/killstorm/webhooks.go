package killstorm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/webhook"
)

// WebhooksConfig of a storm over webhooks from a sender to a receiver. Every field but Log and Progress is required.
type WebhooksConfig struct {
	Orders  int // refunds; at least LeastWebhooks
	Clients int // that work at the same time
	Kills   int // of each process
	Seed    uint64
	Session string // that no other storm on the database of the sender has had

	// Senders are nodes of the sender. Endpoints in trouble are at the port that SickPort returns.
	Senders []*Server

	// Receiver has the first endpoint, which is healthy. Its secret is in SecretFile.
	Receiver   *Server
	SecretFile string

	Sent, Books Witness // of the databases of the sender and of the receiver
	Log         io.Writer
	Progress    func(Progress) // called often, by several goroutines
}

// Webhooks is one run of such a storm.
type Webhooks struct {
	WebhooksConfig
	frame

	sick                  sickEndpoints
	healthy, hangs, fails string // IDs of endpoints
	logged                secretLog
	forged, accepted      atomic.Int64
	mu                    sync.Mutex
	secret, retired       string // the secrets of the healthy endpoint: the present one, and the one that the receiver has forgotten
	secrets               []string
	bookedAt              int // the number of bookings when the receiver was last killed
	calming               sync.Once
	calmed                error
	rotated               chan struct{} // closed when the secret was replaced, or replacing it has failed
}

// LeastWebhooks is the smallest number of refunds of a storm. With fewer, the storm could not kill each process several times and still have refunds
// during which no process is killed.
const LeastWebhooks = 24

// NewWebhooks returns a storm, so that its sick endpoints have an address before its processes start.
func NewWebhooks(cfg WebhooksConfig) *Webhooks {
	s := &Webhooks{WebhooksConfig: cfg, rotated: make(chan struct{})}
	s.frame = frame{
		victims: append([]*Server{cfg.Receiver}, cfg.Senders...), // the receiver first, because the senders need its port
		orders:  cfg.Orders, calm: cfg.Orders / 3, clients: cfg.Clients, each: cfg.Kills, seed: cfg.Seed,
	}
	if cfg.Progress != nil {
		s.tell = func(p Progress) { p.What = "refunds"; cfg.Progress(p) }
	}
	s.init()
	for _, p := range s.victims {
		p.Log = &s.logged
		if cfg.Log != nil {
			p.Log = io.MultiWriter(&s.logged, cfg.Log)
		}
	}
	return s
}

// Ports returns the ports of the endpoints.
func (s *Webhooks) Ports() (ports []string) {
	for _, address := range []string{s.Receiver.Address(), s.sick.address} {
		_, port, _ := net.SplitHostPort(address)
		ports = append(ports, port)
	}
	return ports
}

// Run runs the storm to its end and counts the bookings. Its error means that the storm has no result, not that the result is bad.
func (s *Webhooks) Run(ctx context.Context) (r WebhooksReport, err error) {
	stop, err := s.sick.serve(ctx)
	if err != nil {
		return r, err
	}
	defer stop()
	took, err := s.run(ctx, s.rage)
	if err == nil {
		err = s.Sent.await(ctx)
	}
	if err == nil {
		err = s.count(ctx, &r)
	}
	r.Took = took
	return r, err
}

// rage runs the part of the storm in which processes live.
func (s *Webhooks) rage(ctx context.Context) error {
	s.enter("starting")
	if err := s.tellReceiver(); err != nil {
		return err
	}
	if err := startAll(ctx, s.victims...); err != nil {
		return err
	}
	if err := s.register(ctx); err != nil {
		return err
	}
	if err := s.storm(ctx, s.aim, s.order); err != nil {
		return err
	}
	s.enter("delivering")
	return s.delivered(ctx)
}

// register creates the endpoints through the API, as their tenant does.
func (s *Webhooks) register(ctx context.Context) error {
	for _, e := range []struct {
		url   string
		types []string
		id    *string
	}{
		{"http://" + s.Receiver.Address() + hooksPath, []string{"refund.*", webhook.EventEndpointDisabled}, &s.healthy},
		{"http://" + s.sick.address + "/hangs", []string{"refund.*"}, &s.hangs},
		{"http://" + s.sick.address + "/fails", []string{"refund.*"}, &s.fails},
	} {
		created, err := s.manage(ctx, "", map[string]any{"url": e.url, "types": e.types})
		if err != nil {
			return err
		}
		*e.id = created.ID
		s.secrets = append(s.secrets, created.Secret)
		if e.id == &s.healthy {
			s.secret = created.Secret
			if err := s.tellReceiver(s.secret); err != nil {
				return err
			}
		}
	}
	return nil
}

// managed is an answer of the API of tenants.
type managed struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

// manage repeats a request to the API of tenants until it is answered. The repetition must have no second effect.
func (s *Webhooks) manage(ctx context.Context, path string, body any) (m managed, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return m, err
	}
	for attempt := 0; ; attempt++ {
		node := s.Senders[attempt%len(s.Senders)]
		a, err := (wire{address: node.Address(), tenant: s.Session}).post(ctx, endpointsPath+path, "", string(text), attempt, deliver)
		switch {
		case err == nil && a.status < 300:
			return m, json.Unmarshal(a.body, &m)
		case err == nil && a.status < 500:
			return m, fmt.Errorf("the sender answers %d to its tenant", a.status) // without the body, which may contain a secret
		}
		if sleep(ctx, askPause) != nil {
			return m, context.Cause(ctx)
		}
	}
}

// tellReceiver gives secrets to the receiver, without a restart.
func (s *Webhooks) tellReceiver(secrets ...string) error {
	next := s.SecretFile + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(secrets, "\n")), 0o600); err != nil {
		return err
	}
	return os.Rename(next, s.SecretFile)
}

// rotate replaces the secret of the healthy endpoint. For a while its requests are signed with both secrets. The tenant chooses the secret, so that
// it can repeat a rotation whose answer was lost. A relay may sign with the old secret alone for a moment, so the receiver accepts both.
func (s *Webhooks) rotate(ctx context.Context) error {
	defer close(s.rotated)
	secret := webhook.NewSecret()
	s.mu.Lock()
	old := s.secret
	s.secret, s.secrets = secret, append(s.secrets, secret)
	s.mu.Unlock()
	if err := s.tellReceiver(secret, old); err != nil {
		return err
	}
	_, err := s.manage(ctx, "/"+s.healthy+"/rotate", map[string]any{"secret": secret, "overlap_seconds": 3600})
	return err
}

// retire makes the receiver forget the old secret: later requests must be signed with the new one.
func (s *Webhooks) retire() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = s.secrets[0]
	return s.tellReceiver(s.secret)
}

// aim waits for the moment at which a kill is most likely to cause an error. For the receiver it is the first booking after its last kill.
func (s *Webhooks) aim(ctx context.Context, victim *Server, rng *rand.Rand) error {
	if victim == s.Receiver {
		n, err := s.await(ctx, func() (int, bool, error) {
			n, err := s.Books.number(ctx, "", "select count(*) from demo_booking where event_id <> $1")
			return n, n > s.bookedAt, err
		})
		if err != nil {
			return err
		}
		s.bookedAt = n
	}
	return sleep(ctx, time.Duration(rng.Int64N(int64(100*time.Millisecond))))
}

// order requests a refund from a sender until it is made. Some orders also send a forged request, and one makes the rotation.
func (s *Webhooks) order(ctx context.Context, i int) error {
	defer s.answered.count()
	switch half := s.underFire() / 2; {
	case i == half:
		if err := s.rotate(ctx); err != nil {
			return err
		}
	case i > half: // these orders wait for the rotation, so that the last kills come after it
		<-s.rotated
	}
	if i >= s.underFire() {
		s.calming.Do(func() { s.calmed = s.calmDown(ctx) })
		if s.calmed != nil {
			return s.calmed
		}
	}
	if i%forgeEvery == 0 {
		if err := s.forge(ctx, i/forgeEvery); err != nil {
			return err
		}
	}
	body, err := json.Marshal(hookRefund{Name: s.nameOf(i), Number: i, Cents: int64(firstAmount + i)})
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		node := s.Senders[(i+attempt)%len(s.Senders)]
		s.sent.Add(1)
		a, err := (wire{address: node.Address(), tenant: s.Session}).post(ctx, refundsPath, once.DeriveKey(s.nameOf(i)), string(body), attempt, pickFate(rand.New(rand.NewPCG(s.seed, uint64(i)<<16|uint64(attempt)))))
		switch {
		case err == nil && a.status == http.StatusCreated:
			return nil
		case err == nil && a.status < 500 && a.status != http.StatusConflict: // a 409 is not an error: the first request is still running
			return fmt.Errorf("a refund is answered with %d %s", a.status, a.body)
		}
		if sleep(ctx, askPause) != nil {
			return context.Cause(ctx)
		}
	}
}

func (s *Webhooks) nameOf(i int) string { return s.Session + "-" + strconv.Itoa(i) }

const (
	forgeEvery   = 4
	forgedPrefix = "forged-"
)

// Ways to forge a request.
const (
	forgedSecret   = iota // with another secret
	forgedBody            // with another body than the signed one
	forgedID              // sent again under another ID
	forgedTime            // an old request of an hour ago, sent again
	forgedRetired         // with the replaced secret
	forgedUnsigned        // without a signature
	forgeries
)

// forge sends the receiver a request that is not from the sender, until it is answered.
func (s *Webhooks) forge(ctx context.Context, n int) error {
	id := forgedPrefix + strconv.Itoa(n)
	body := fmt.Appendf(nil, `{"type":%q,"data":{"name":%q,"cents":1}}`, hookRefundType, id)
	at, signedID, signedBody := time.Now(), id, body
	s.mu.Lock()
	secret := s.secret
	switch kind := n % forgeries; {
	case kind == forgedSecret, kind == forgedRetired && s.retired == "":
		secret = webhook.NewSecret()
	case kind == forgedRetired:
		secret = s.retired
	case kind == forgedBody:
		signedBody = []byte("{}")
	case kind == forgedID:
		signedID = "msg_1"
	case kind == forgedTime:
		at = at.Add(-time.Hour)
	}
	s.mu.Unlock()
	signer, err := webhook.NewSigner(secret)
	header := http.Header{}
	if err == nil {
		err = signer.Sign(header, signedID, at, signedBody)
	}
	if err != nil {
		return err
	}
	header.Set(webhook.HeaderID, id)
	if n%forgeries == forgedUnsigned {
		header.Del(webhook.HeaderSignature)
	}
	s.forged.Add(1)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Receiver.Address()+hooksPath, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header = header.Clone()
		a, err := (wire{address: s.Receiver.Address()}).send(ctx, req, deliver)
		switch {
		case err == nil && a.status == http.StatusUnauthorized:
			return nil
		case err == nil && a.status < 300:
			s.accepted.Add(1)
			return nil
		}
		if sleep(ctx, askPause) != nil {
			return context.Cause(ctx)
		}
	}
}

// calmDown waits until the deliveries that the kills have delayed are done, and then makes the receiver forget the old secret. Each node of
// the sender was killed after the rotation, so it has read the new secret.
func (s *Webhooks) calmDown(ctx context.Context) error {
	_, err := s.await(ctx, func() (int, bool, error) {
		n, err := s.waiting(ctx, s.healthy)
		return -n, n == 0, err
	})
	if err == nil {
		err = s.retire()
	}
	return err
}

// delivered waits until no delivery to the healthy endpoint waits any more, and the failing endpoint is disabled.
func (s *Webhooks) delivered(ctx context.Context) error {
	_, err := s.await(ctx, func() (int, bool, error) {
		waiting, err := s.waiting(ctx, s.healthy)
		if err != nil {
			return 0, false, err
		}
		disabled, err := s.Sent.number(ctx, s.fails, "select count(*) from once_webhook_endpoint where uid = $1 and disabled_at is not null")
		return -waiting, waiting == 0 && disabled == 1, err
	})
	return err
}

// waiting returns how many deliveries to an endpoint wait or have stopped.
func (s *Webhooks) waiting(ctx context.Context, endpoint string) (int, error) {
	return s.Sent.number(ctx, endpoint, "select count(*) from once_webhook_delivery d join once_webhook_endpoint e on e.id = d.endpoint where e.uid = $1")
}

// await polls until enough is true. It gives up when n has not changed for long: then something is lost, and the result will show that.
func (s *Webhooks) await(ctx context.Context, look func() (n int, enough bool, err error)) (int, error) {
	last, changed := 0, time.Now()
	for {
		n, enough, err := look()
		switch {
		case ctx.Err() != nil:
			return n, context.Cause(ctx)
		case err != nil:
			return n, err
		case enough:
			return n, nil
		case n != last:
			last, changed = n, time.Now()
		case time.Since(changed) > awaitPatience:
			return n, nil
		}
		if sleep(ctx, askPause) != nil {
			return n, context.Cause(ctx)
		}
	}
}

const awaitPatience = time.Minute

// failures is how often an endpoint fails before it answers 410. Some of these failures happen while its circuit is open.
const failures = 6

// sickEndpoints are two endpoints: one never answers, and one answers 500, and later 410.
type sickEndpoints struct {
	address      string
	hung, failed atomic.Int64 // requests
}

func (e *sickEndpoints) serve(ctx context.Context) (stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e.address = l.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) {
		e.hung.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // a server notices the end of a connection only after it has read the body
		<-r.Context().Done()
	})
	mux.HandleFunc("/fails", func(w http.ResponseWriter, _ *http.Request) {
		if e.failed.Add(1) > failures {
			w.WriteHeader(http.StatusGone)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(l) }()
	return func() { _ = errors.Join(server.Close()) }, nil
}
