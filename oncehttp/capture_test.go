package oncehttp_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
)

func TestCaptureHidesCredentials(t *testing.T) {
	sealer, err := once.NewEncrypter(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	strip := func(next http.Handler) http.Handler { return http.StripPrefix("/api", next) }
	s := start(t, setup{Config: oncehttp.Config{CaptureRequest: true}, engine: once.Config{Encrypter: sealer}, around: strip}, create)
	got := s.send("POST", "/api/refunds?a=1", `{"amount":1}`, "Idempotency-Key", "k", "Content-Type", "application/json", "X-Tenant", "acme",
		"Authorization", "Bearer secret", "Proxy-Authorization", "secret", "Cookie", "session=secret", "Connection", "close")
	if got.status != 201 {
		t.Fatalf("%+v", got)
	}
	id := store.ID{Scope: "global POST /refunds", Key: "k"}
	rec, err := s.store.Read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := sealer.Decrypt(rec.Request, seal.Label(id.Scope, id.Key))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(plain), "secret") {
		t.Errorf("credentials were captured: %s", plain)
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(plain)))
	if err != nil {
		t.Fatalf("%v in %q", err, plain)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != `{"amount":1}` || r.Method != http.MethodPost || r.URL.String() != "/api/refunds?a=1" || r.Host != s.addr ||
		r.Header.Get("Idempotency-Key") != "k" || r.Header.Get("X-Tenant") != "acme" || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%+v %q, %v", r, body, err)
	}
	if rest, _ := io.ReadAll(r.Body); len(rest) != 0 {
		t.Errorf("and %q", rest)
	}
}

func TestNoCapture(t *testing.T) {
	sealer, _ := once.NewEncrypter(make([]byte, 32))
	s := start(t, setup{engine: once.Config{Encrypter: sealer}}, create)
	s.post("k", "")
	if rec, _ := s.store.Read(t.Context(), store.ID{Scope: "global POST /refunds", Key: "k"}); rec.State != store.StateDone || rec.Request != nil {
		t.Errorf("%+v", rec)
	}
}
