package gateway

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
)

const example = `gateway:
  upstream: http://127.0.0.1:3000
  principal: {header: X-Tenant, trusted_from: [10.0.0.0/8]}
  receipt: postgres://gateway@db/app                          # or an endpoint of the service; first: once migrate up --only receipt --db URL
  routes:
    - {match: POST /payments, on_unknown: check, wait: 5s}
`

// smallest is the file for a service without receipts.
const smallest = `gateway:
  upstream: http://127.0.0.1:3000
  principal: {header: X-Tenant, trusted_from: [10.0.0.0/8]}   # for a try on this machine: 127.0.0.0/8
  routes:
    - {match: POST /payments, wait: 5s}
`

// file writes a once.yaml, and returns its name.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "once.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestGatewayConfig: the smallest file works, with each of its alternatives, and beside the defaults of other commands.
func TestGatewayConfig(t *testing.T) {
	t.Parallel()
	principal := "principal: {header: X-Tenant, trusted_from: [10.0.0.0/8]}"
	for name, text := range map[string]string{
		"as it stands":        example,
		"the smallest":        smallest,
		"anyone":              strings.Replace(example, principal, "anyone: true", 1),
		"principal: anyone":   strings.Replace(example, principal, "principal: {anyone: true}", 1),
		"endpoint":            strings.Replace(example, "postgres://gateway@db/app", "http://127.0.0.1:3000/once-receipt", 1),
		"store: receipt":      example + "  store: receipt\n",
		"store: postgres":     example + "  store: postgres://gateway@db/gateway\n  name: payments\n",
		"with other settings": "db: sqlite:app.db\nby: ada\n" + example,
	} {
		cfg, err := checked(file(t, text), flags{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := cfg.Routes[0]
		policy := "check"
		if text == smallest {
			policy = "" // the default, stop
		}
		if r.Match != "POST /payments" || r.OnUnknown != policy || time.Duration(r.Wait) != 5*time.Second || cfg.Listen != defaultListen || cfg.Admin != defaultAdmin {
			t.Errorf("%s: %+v", name, cfg)
		}
	}
	cfg, err := checked(file(t, example), flags{upstream: "https://other", listen: ":1", admin: ":2", store: "receipt"})
	if err != nil || cfg.Upstream != "https://other" || cfg.Listen != ":1" || cfg.Admin != ":2" || cfg.Store != "receipt" {
		t.Errorf("flags go before the file: %+v, %v", cfg, err)
	}
}

// TestReceiptWithoutCheckIsAWarning: receipts that no route uses are told. With store: receipt each route uses them.
func TestReceiptWithoutCheckIsAWarning(t *testing.T) {
	t.Parallel()
	unused := strings.Replace(example, "on_unknown: check", "on_unknown: stop", 1)
	for text, warns := range map[string]bool{smallest: false, example: false, unused: true, unused + "  store: receipt\n": false} {
		cfg, err := checked(file(t, text), flags{})
		if err != nil || (cfg.unusedReceipt() != "") != warns {
			t.Errorf("%s: %v, %v", text, cfg, err)
		}
	}
}

// TestMistakesInTheFile: a mistake is told with its line and a caret, and without the passwords of the lines around it.
func TestMistakesInTheFile(t *testing.T) {
	t.Parallel()
	const head = "gateway:\n  upstream: http://127.0.0.1:3000\n  anyone: true\n  receipt: postgres://ada:secret@db/app\n"
	for _, c := range []struct{ text, at, says string }{
		{head + "  upstrim: http://127.0.0.1:3000\n", "[5:3]", "upstrim"},
		{head + "  upstream: http://127.0.0.1:3000\n", "[5:3]", "already defined"},
		{head + "  routes:\n  - {match: POST /a, wiat: 5s}\n", "[6:22]", "wiat"},
		{head + "  routes:\n  - {match: POST /a, wait: 5x}\n", "[6:28]", "duration"},
		{head + "  routes:\n  - {match: POST /a, wait: -5s}\n", "[6:28]", "duration"},
		{head + "  routes:\n  - {match: POST /a, max_request: 5 Mib}\n", "[6:35]", "size"},
		{head + "  routes:\n  - {match: POST /a, max_request: 99999999999GiB}\n", "[6:35]", "size"},
		{head + "  routes:\n  - {match: POST /a, on_unknown: forward}\n", "[6:34]", "forward"},
		{head + "  routes:\n  - {match: POST /a, on_unknown: forward_same_key}\n", "[6:34]", "upstream_keeps_keys"},
		{head + "  routes:\n  - {match: POST /a}\n  - {match: POST /a}\n", "[7:13]", "conflicts"},
		{head + "  routes:\n  - {match: POST}\n", "[6:13]", "POST"},
		{head + "  routes:\n  - {wait: 5s}\n", "[6:5]", "no match"},
		{head + "  routes:\n  - {match: POST /a, limit: -1}\n", "[6:29]", "limit"},
		{head + "  routes:\n  - {match: POST /a, retain: 1s}\n", "[6:30]", "retain"},
		{head + "  routes: POST /a\n", "[5:11]", "sequence"},
		{head + "  retain: 1s\n", "[5:11]", "minute"},
		{head + "  receipts_kept: 24h\n  store: receipt\n  routes:\n  - {match: POST /a, retain: 48h}\n", "[8:", "receipts for only 24h"},
		{head + "  store: none\n", "", ""}, // the path of a file
		{head + "  store: postgres://ada:secret@db/gateway\n", "[5:10]", "share keys"},
		{head + "  name: a b\n", "[5:9]", "64 letters"},
		{head + "  store: user:password@db\n", "[5:10]", "neither the URL of a supported database nor the word receipt"},
		{head + "  trusted_proxies: [10.0.0.1/8]\n", "[5:21]", "10.0.0.0/8"},
		{head + "  lease: 2h\n", "[5:10]", "1h"},
		{head + "  lease: 10ms\n", "[5:10]", "http://127.0.0.1:3000\n"},
		{head + "  quota: {every: 1m}\n", "[5:10]", "needs bytes"},
		{head + "  quota: {bytes: 100MiB}\n  store: receipt\n", "[5:10]", "a quota has no effect"},
		{head + "  listen: 8080\n", "[5:11]", "address"},
		{head + "  tls: {cert: a}\n", "[5:", "cert and key"},
		{head + "  tls: {cert: a, key: b}\n", "[5:", "no such file"},
		{head + "  principal: {header: X-Tenant}\n", "[5:", "use either"},
		{"gateway:\n  upstream: ftp://127.0.0.1\n  anyone: true\n", "[2:13]", "address of a service"},
		{"gateway:\n  upstream: http://127.0.0.1\n", "[2:11]", "setting principal is missing"},
		{"gateway:\n  upstream: http://127.0.0.1\n  principal: {header: X-Tenant}\n", "[3:23]", "from no address"},
		{"gateway:\n  upstream: http://127.0.0.1\n  anyone: true\n  store: receipt\n", "[4:10]", "would remember no key"},
		{"gateway:\n  upstream: http://127.0.0.1\n  anyone: true\n  routes:\n  - {match: POST /a, on_unknown: check}\n", "[5:34]", "check needs the setting receipt"},
		{head + "  trusted_proxies: !!int .0\n", "[2:11]", "!!int"},
		{"gateway: [\n", "[1:", "sequence"},
		{"gateway: &a\n  upstream: *a\n", "[", ""},
	} {
		_, err := checked(file(t, c.text), flags{})
		if c.at == "" {
			if err != nil {
				t.Errorf("%s\n%v", c.text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "once.yaml:"+c.at) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "^") ||
			!strings.Contains(err.Error(), "Try: ") || strings.Contains(err.Error(), "secret") || !errors.As(err, new(*cli.UsageError)) {
			t.Errorf("%s\nwant %s and %q, got\n%v", c.text, c.at, c.says, err)
		}
	}
}

// FuzzGatewayConfig: no text makes the reader panic. What it accepts has a caller and something that remembers.
func FuzzGatewayConfig(f *testing.F) {
	f.Add(example)
	f.Add("gateway: {upstream: 'h2c://a:1', principal: {header: A, trusted_from: ['::1', 10.0.0.1]}, routes: [{match: /a, max_stored: 1MiB, headers: [X]}]}")
	f.Add("gateway: {<<: {anyone: true}, upstream: http://a, routes: [{match: POST /a, limit: 1, queue: 0, breaker: false, database_wait: {server_timing: db}}]}")
	f.Add("a: &a [1]\ngateway: *a\n")
	f.Add("gateway:\n\t- x")
	f.Add("gateway: {upstream: http://a, anyone: true, trusted_proxies: !!int .0}")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, src, err := parse("once.yaml", []byte(text), flags{})
		if err != nil {
			_ = err.Error()
			return
		}
		if !cfg.Anyone && !cfg.Principal.Anyone && (cfg.Principal.Header == "" || len(cfg.Principal.TrustedFrom) == 0) {
			t.Errorf("no caller: %q", text)
		}
		if cfg.Store == storeReceipt && cfg.Receipt == "" {
			t.Errorf("nothing remembers: %q", text)
		}
		if cfg.TLS == nil { // it would read files
			_, _ = (&proxy{back: memory(), guards: newGuards()}).build(cfg, src)
		}
	})
}
