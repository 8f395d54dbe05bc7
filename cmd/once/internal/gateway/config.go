package gateway

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlplane"
)

// config is the section "gateway" of once.yaml. docs/gateway-daemon.md lists every setting with its default.
type config struct {
	Name           string    `yaml:"name"` // of the service
	Upstream       string    `yaml:"upstream"`
	Principal      principal `yaml:"principal"`
	Anyone         bool      `yaml:"anyone"` // a short form of principal: {anyone: true}
	Receipt        string    `yaml:"receipt"`
	ReceiptsKept   duration  `yaml:"receipts_kept"`
	Store          string    `yaml:"store"`
	Routes         []route   `yaml:"routes"`
	Listen         string    `yaml:"listen"`
	Admin          string    `yaml:"admin"`
	TLS            *files    `yaml:"tls"`
	TrustedProxies []network `yaml:"trusted_proxies"`
	Idle           duration  `yaml:"idle"`
	Retain         duration  `yaml:"retain"`
	Lease          duration  `yaml:"lease"`
	Quota          *quota    `yaml:"quota"`
	DrainWait      *duration `yaml:"drain_wait"`
	DrainTimeout   duration  `yaml:"drain_timeout"`
}

type principal struct {
	Header      string    `yaml:"header"`
	TrustedFrom []network `yaml:"trusted_from"`
	Anyone      bool      `yaml:"anyone"`
}

// quota is what each caller may have stored.
type quota struct {
	Bytes size     `yaml:"bytes"`
	Every duration `yaml:"every"`
}

type files struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

type route struct {
	Match             string        `yaml:"match"`
	OnUnknown         string        `yaml:"on_unknown"`
	UpstreamKeepsKeys duration      `yaml:"upstream_keeps_keys"`
	FailAfter         duration      `yaml:"fail_after"`
	Optional          bool          `yaml:"optional"`
	Timeout           duration      `yaml:"timeout"`
	BodyTimeout       duration      `yaml:"body_timeout"`
	Wait              duration      `yaml:"wait"`
	Retain            duration      `yaml:"retain"`
	KeyTime           bool          `yaml:"key_time"`
	UUIDKeys          bool          `yaml:"uuid_keys"`
	MaxRequest        size          `yaml:"max_request"`
	MaxStored         size          `yaml:"max_stored"`
	Headers           []string      `yaml:"headers"`
	Limit             int           `yaml:"limit"`
	Queue             *int          `yaml:"queue"`
	Breaker           *bool         `yaml:"breaker"`
	DatabaseWait      *databaseWait `yaml:"database_wait"`
}

// databaseWait is the metric of Server-Timing in which the service reports how long a request has waited for its database.
type databaseWait struct {
	ServerTiming string   `yaml:"server_timing"`
	AtMost       duration `yaml:"at_most"`
}

// Defaults of the file.
const (
	defaultName         = "service"
	defaultStore        = cli.GatewayStore
	storeReceipt        = "receipt" // no store: the receipts decide alone
	defaultListen       = "127.0.0.1:8080"
	defaultAdmin        = "127.0.0.1:9901"
	defaultLease        = 15 * time.Second
	defaultDrainWait    = 3 * time.Second
	defaultDrainTimeout = 30 * time.Second
	defaultLimit        = 256
	defaultAtMost       = 50 * time.Millisecond
)

// source is the text of a file, for errors that show the line.
type source struct {
	name string
	file *ast.File
}

// flags are settings that can also be given on the command line. They override the file.
type flags struct{ upstream, listen, admin, store string }

// parse reads the text of a file; nil if no file exists. An error about the file has its line and a caret.
func parse(name string, text []byte, f flags) (*config, *source, error) {
	src := &source{name: name}
	cfg := &config{}
	if text != nil {
		file, err := parser.ParseBytes(text, 0)
		if err != nil {
			return nil, nil, src.show(err)
		}
		if len(file.Docs) > 1 {
			return nil, nil, cli.Usage(name+" has more than one YAML document", "one YAML document, without ---")
		}
		src.file = file
		if n := src.find("$.gateway"); n != nil && n.Type() != ast.NullType {
			if err := decode(n, cfg); err != nil {
				return nil, nil, src.show(err)
			}
		}
	}
	for _, s := range []struct {
		to   *string
		flag string
		or   string
	}{
		{&cfg.Upstream, f.upstream, ""},
		{&cfg.Listen, f.listen, defaultListen},
		{&cfg.Admin, f.admin, defaultAdmin},
		{&cfg.Store, f.store, defaultStore},
	} {
		if s.flag != "" {
			*s.to = s.flag
		}
		if *s.to == "" {
			*s.to = s.or
		}
	}
	if cfg.DrainWait == nil {
		cfg.DrainWait = new(duration)
		*cfg.DrainWait = duration(defaultDrainWait)
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = duration(defaultDrainTimeout)
	}
	if cfg.Lease == 0 {
		cfg.Lease = duration(defaultLease)
	}
	if err := cfg.check(src); err != nil {
		return nil, nil, err
	}
	return cfg, src, nil
}

// decode reads the settings. Package yaml panics on some wrong tags.
func decode(n ast.Node, cfg *config) (err error) {
	defer func() {
		if recover() != nil {
			err = mistake(n, "a value in this part cannot be read. Try: remove tags such as !!int")
		}
	}()
	return yaml.NodeToValue(n, cfg, yaml.Strict())
}

// name is the form of a service's name, as in package gateway. Config.Name explains its purpose.
var name = regexp.MustCompile(`^[a-zA-Z0-9._-]{0,64}$`)

// check returns an error for wrong values of settings.
func (c *config) check(src *source) error {
	if _, err := c.upstream(); err != nil {
		return src.at(err.Error(), "upstream")
	}
	if !name.MatchString(c.Name) {
		return src.at("a name has at most 64 letters, digits, '-', '_' and '.'", "name")
	}
	p := &c.Principal
	switch isAnyone := c.Anyone || p.Anyone; {
	case isAnyone && (p.Header != "" || p.TrustedFrom != nil):
		return src.at("use either anyone: true for a single caller, or a header that names the caller", "principal", "anyone")
	case !isAnyone && p.Header == "":
		return src.at("the setting principal is missing, so callers would share keys and answers. Try: principal: {header: X-Tenant, trusted_from: [10.0.0.0/8]}; or anyone: true if only one caller exists", "principal")
	case !isAnyone && len(p.TrustedFrom) == 0:
		return src.at("trusted_from is missing, so the gateway trusts the header from no address. Try: trusted_from with the networks of the proxies that set the header", "principal.header", "principal")
	}
	for setting, address := range map[string]string{"listen": c.Listen, "admin": c.Admin} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return src.at(fmt.Sprintf("%q is not an address such as 127.0.0.1:8080", address), setting)
		}
	}
	if err := c.checkDatabases(src); err != nil {
		return err
	}
	if c.TLS != nil && (c.TLS.Cert == "" || c.TLS.Key == "") {
		return src.at("tls needs cert and key, which are the names of two files", "tls")
	}
	if ttl := time.Duration(c.Lease); ttl < lease.ShortestTTL || ttl > lease.DefaultMaxDuration {
		return src.at("lease must be between 100ms and 1h", "lease")
	}
	if err := checkRetain(time.Duration(c.Retain)); err != nil {
		return src.at(err.Error(), "retain")
	}
	switch {
	case c.Quota == nil:
	case c.Store == storeReceipt:
		return src.at("with store: receipt the gateway stores no data, so a quota has no effect. Try: remove quota", "quota")
	case c.Quota.Bytes == 0:
		return src.at("quota needs bytes. Try: quota: {bytes: 100MiB}", "quota")
	}
	for i, r := range c.Routes {
		if setting, text := r.mistake(c); text != "" {
			at := fmt.Sprintf("routes[%d]", i)
			return src.at(text, at+"."+setting, at)
		}
	}
	return nil
}

// checkDatabases returns an error if store or receipt is wrong.
func (c *config) checkDatabases(src *source) error {
	if c.Store == storeReceipt && c.Receipt == "" {
		return src.at("store: receipt needs the setting receipt: without the setting receipt the gateway would remember no key. Try: receipt with the database of the service", "store")
	}
	if c.Store != storeReceipt {
		switch db, err := cli.ParseSource(c.Store); {
		case err != nil:
			return src.at("the value is neither the URL of a supported database nor the word receipt. Try: sqlite:once-gateway.db, postgres://user@host/name, or receipt", "store")
		case db.Dialect != sqlplane.SQLite && c.Name == "": // the address of a service changes, and is 127.0.0.1 for each sidecar
			return src.at("the setting name is missing: gateways of other services may use this store, and would share keys with this gateway. Try: name with the name of the service, such as name: payments", "store")
		}
	}
	if c.Receipt != "" {
		if _, err := nameOfReceipts(c.Receipt); err != nil {
			return src.at("the value is not an address of receipts. Try: the database of the service, such as postgres://user@host/name, or its endpoint, such as http://127.0.0.1:3000/once-receipt", "receipt")
		}
	}
	return nil
}

// mistake returns a wrong setting of a route, with the error. Package gateway checks the rest.
func (r route) mistake(c *config) (setting, text string) {
	policy := gateway.Policy(r.OnUnknown)
	switch err := checkRetain(time.Duration(r.Retain)); {
	case r.Match == "":
		return "match", `the route has no match. Try: match: POST /payments`
	case policy == gateway.PolicyCheck && c.Receipt == "":
		return "on_unknown", "on_unknown: check needs the setting receipt. Try: receipt with the database of the service, or its endpoint"
	case policy == gateway.PolicyForwardSameKey && r.UpstreamKeepsKeys == 0:
		return "on_unknown", "on_unknown: forward_same_key needs upstream_keeps_keys: a service that has forgotten a key executes the request again. Try: upstream_keeps_keys: 24h if the service keeps keys for a day"
	case c.Store == storeReceipt && policy != "" && policy != gateway.PolicyStop && policy != gateway.PolicyCheck:
		return "on_unknown", "with store: receipt only the receipt decides an unknown outcome. Try: remove on_unknown"
	case r.Limit < 0:
		return "limit", "limit must be greater than zero"
	case r.Queue != nil && *r.Queue < 0:
		return "queue", "queue must not be negative"
	case r.DatabaseWait != nil && r.DatabaseWait.ServerTiming == "":
		return "database_wait", "database_wait needs server_timing, the name of a metric in the header Server-Timing"
	case err != nil:
		return "retain", err.Error()
	}
	return "", ""
}

// unusedReceipt returns a warning if the setting receipt has no effect, and "" otherwise.
func (c *config) unusedReceipt() string {
	if c.Receipt == "" || c.Store == storeReceipt || slices.ContainsFunc(c.Routes, func(r route) bool { return gateway.Policy(r.OnUnknown) == gateway.PolicyCheck }) {
		return ""
	}
	return "the setting receipt has no effect, because no route uses receipts. Try: on_unknown: check for the routes whose service writes receipts"
}

// checkRetain refuses a retention at which the engine would panic.
func checkRetain(d time.Duration) error {
	if d != 0 && d < time.Minute {
		return errors.New("retain must be at least a minute: if the gateway forgets a key, a retry executes again")
	}
	return nil
}

func (c *config) upstream() (*url.URL, error) {
	if c.Upstream == "" {
		return nil, errors.New("the setting upstream is missing. Try: upstream: http://127.0.0.1:3000, or --upstream")
	}
	u, err := url.Parse(c.Upstream)
	switch {
	case err != nil || u.Host == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "",
		u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return nil, errors.New("the upstream is not the address of a service. Try: http://127.0.0.1:3000; use https:// for TLS, and h2c:// for HTTP/2 without TLS")
	}
	return u, nil
}

// fixed returns the settings that a reload cannot change, by their names.
func (c *config) fixed() map[string]any {
	return map[string]any{
		"name": c.Name, "listen": c.Listen, "admin": c.Admin, "store": c.Store, "receipt": c.Receipt, "lease": c.Lease, "quota": c.Quota, "tls": c.TLS != nil,
		"drain_wait": *c.DrainWait, "drain_timeout": c.DrainTimeout,
	}
}

// unchanged returns an error if a reload to c would need a restart.
func (c *config) unchanged(old *config, src *source) error {
	before := old.fixed()
	for _, name := range []string{"name", "listen", "admin", "store", "receipt", "lease", "quota", "tls", "drain_wait", "drain_timeout"} {
		if now := c.fixed()[name]; !reflect.DeepEqual(now, before[name]) {
			return src.at(name+" cannot be changed while the gateway runs. Try: restart the gateway", name)
		}
	}
	return nil
}

// gatewayConfig is the config for package gateway, without its store and receipts.
func (c *config) gatewayConfig() gateway.Config {
	u, _ := c.upstream() // cannot fail: it was checked
	cfg := gateway.Config{
		Name: cmp.Or(c.Name, defaultName), Upstream: u, Idle: time.Duration(c.Idle), TrustedProxies: prefixes(c.TrustedProxies), ReceiptsKept: time.Duration(c.ReceiptsKept), Engine: once.Config{Retain: time.Duration(c.Retain)},
	}
	if cfg.Principal = oncehttp.SharedPrincipal(); c.Principal.Header != "" {
		cfg.Principal = gateway.HeaderPrincipal(c.Principal.Header, prefixes(c.Principal.TrustedFrom)...)
	}
	if u, err := url.Parse(c.Receipt); err == nil && isEndpoint(c.Receipt) && len(u.Path) > 1 {
		cfg.Hidden = []string{u.Path}
	}
	for _, r := range c.Routes {
		cfg.Routes = append(cfg.Routes, gateway.Route{
			Pattern: r.Match, OnUnknown: gateway.Policy(r.OnUnknown), UpstreamKeepsKeys: time.Duration(r.UpstreamKeepsKeys),
			FailAfter: time.Duration(r.FailAfter), Optional: r.Optional, Timeout: time.Duration(r.Timeout), BodyTimeout: time.Duration(r.BodyTimeout), Wait: time.Duration(r.Wait),
			Retain: time.Duration(r.Retain), KeyTime: r.KeyTime, UUIDKeys: r.UUIDKeys, MaxRequest: int64(r.MaxRequest), MaxStored: int64(r.MaxStored), Headers: r.Headers,
		})
	}
	return cfg
}

func prefixes(list []network) (all []netip.Prefix) {
	for _, n := range list {
		all = append(all, netip.Prefix(n))
	}
	return all
}

// find returns the value at a path, or nil.
func (s *source) find(path string) ast.Node {
	p, err := yaml.PathString(path)
	if err != nil || s.file == nil {
		return nil
	}
	n, err := p.FilterFile(s.file)
	if err != nil {
		return nil
	}
	return n
}

// at returns an error about the first of these settings that the file has. If the file has none of them, the error is about the whole file.
func (s *source) at(text string, settings ...string) error {
	for _, setting := range settings {
		if n := s.find("$.gateway." + setting); n != nil {
			return s.show(mistake(n, text))
		}
	}
	if n := s.find("$.gateway"); n != nil {
		return s.show(mistake(n, text))
	}
	what, try, _ := strings.Cut(text, " Try: ")
	return cli.Usage(strings.TrimSuffix(what, "."), try+" in the file "+s.name)
}

// show returns err with its line in the file.
func (s *source) show(err error) error {
	text := string(bytes.TrimRight(password.ReplaceAll([]byte(yaml.FormatError(err, false, true)), []byte("${1}${3}xxxxx${2}")), "\n"))
	return &fileError{s.name, text}
}

// password finds passwords in URLs: an error shows the lines around the mistake, and is logged.
var password = regexp.MustCompile(`(://[^\s/:@]*:)[^\s@]*(@)|(password=)[^\s&]*`)

// fileError is a mistake in the file, with line and caret. It counts as a usage error.
type fileError struct{ name, text string }

// Error implements error. The advice follows the lines of the file.
func (e *fileError) Error() string {
	what, try := words.Advice(e.name + ":" + e.text)
	return what + "\nTry: " + words.Either(try != "", try, "the settings in docs/gateway-daemon.md")
}

// Unwrap makes the command end with the exit code for usage.
func (*fileError) Unwrap() error { return new(cli.UsageError) }

// nameOfReceipts is the name of the receipts, without a password.
func nameOfReceipts(address string) (string, error) {
	if isEndpoint(address) {
		u, err := url.Parse(address)
		if err == nil {
			_, err = receipt.NewClient(address, receipt.ClientConfig{})
		}
		if err != nil {
			return "", err
		}
		return u.Redacted(), nil
	}
	src, err := cli.ParseSource(address)
	return src.Name, err
}

func isEndpoint(address string) bool {
	return strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")
}

func nameOfStore(address string) string {
	if address == storeReceipt {
		return "none: the gateway uses only the receipts of the service"
	}
	src, _ := cli.ParseSource(address) // cannot fail: it was checked
	return src.Name
}
