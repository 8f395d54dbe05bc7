package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
)

// generation is the gateway of one version of the file.
type generation struct {
	cfg    *config
	gw     *gateway.Gateway
	guards []*guard
	cert   *tls.Certificate // nil without TLS
	stop   func()           // ends the completer of unknown operations
}

// proxy serves the newest generation. A request ends with the generation with which it began.
type proxy struct {
	file      string // "" if no file exists
	flags     flags
	back      *backing
	guards    *guards
	encrypter once.Encrypter
	observer  once.Observer
	log       *slog.Logger
	strangers strangers

	reloading sync.Mutex
	current   atomic.Pointer[generation]
}

// ServeHTTP implements [http.Handler].
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.current.Load().gw.ServeHTTP(w, r)
}

// certificate is for [tls.Config].
func (p *proxy) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return p.current.Load().cert, nil
}

// read reads the file and the command line.
func read(file string, f flags) (*config, *source, error) {
	if file == "" {
		return parse("the command line", nil, f)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, cli.Usage(err.Error(), "--config with a readable file")
	}
	return parse(file, text, f)
}

// build makes a generation. It changes nothing that running requests use.
func (p *proxy) build(cfg *config, src *source) (*generation, error) {
	g := &generation{cfg: cfg, stop: func() {}}
	if cfg.TLS != nil {
		cert, err := tls.LoadX509KeyPair(cfg.TLS.Cert, cfg.TLS.Key)
		if err != nil {
			return nil, src.at(err.Error(), "tls")
		}
		g.cert = &cert
	}
	gc := cfg.gatewayConfig()
	gc.Store, gc.Receipts, gc.Engine.Observer, gc.Engine.Encrypter = p.back.leases, p.back.receipts, p.observer, p.encrypter
	gc.ReceiptsAtOnce, gc.Quota = p.back.atOnce, p.back.quota
	gc.Principal = p.strangers.tell(cfg, gc.Principal)
	g.guards = p.guards.of(cfg, gc.Principal)
	for i, guard := range g.guards {
		gc.Routes[i].Gate, gc.Routes[i].Begin = guard, guard.Begin
	}
	var err error
	g.gw, err = makeGateway(gc, src)
	return g, err
}

// makeGateway is [gateway.New], with the name of a refused route in the error.
func makeGateway(cfg gateway.Config, src *source) (*gateway.Gateway, error) {
	gw, err := gateway.New(cfg)
	if err == nil {
		return gw, nil
	}
	all := cfg.Routes
	for i := range all { // the routes are added one by one, because New does not say which of them it has refused
		cfg.Routes = all[:i+1]
		if _, err := gateway.New(cfg); err != nil {
			at, setting := fmt.Sprintf("routes[%d]", i), ".match"
			if strings.Contains(err.Error(), "policy") {
				setting = ".on_unknown"
			}
			return nil, src.at(said(err), at+setting, at)
		}
	}
	return nil, src.at(said(err), "upstream")
}

// said returns the text of an error of package gateway in the words of the file, without names of Go packages and fields.
func said(err error) string {
	return registered.ReplaceAllString(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "gateway: "), ":\n", ": "), "")
}

var registered = regexp.MustCompile(` \(registered at [^)]*\)`)

// begin makes new requests use the generation g.
func (p *proxy) begin(ctx context.Context, g *generation) {
	if text := g.cfg.unusedReceipt(); text != "" {
		p.log.WarnContext(ctx, text)
	}
	if handlers := g.handlers(p.back); len(handlers) > 0 {
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		completer := lease.Completer{Store: p.back.leases, AskOnly: true, Handlers: handlers, Log: p.log}
		go func() {
			defer close(ended)
			if err := completer.Run(ctx); err != nil {
				p.log.ErrorContext(ctx, "the loop that reads the receipts of operations with an unknown outcome has ended", slog.Any("error", err))
			}
		}()
		g.stop = func() { cancel(); <-ended }
	}
	p.guards.keep(g.guards)
	if old := p.current.Swap(g); old != nil {
		old.gw.Close() // it closes idle connections; the others are closed when their requests have ended
		go old.stop()
	}
}

func (g *generation) handlers(back *backing) lease.Handlers {
	if back.leases == nil || back.receipts == nil {
		return nil
	}
	return g.gw.Handlers()
}

// reload replaces all settings by the settings of the file. If the file has a mistake, reload replaces no setting.
func (p *proxy) reload(ctx context.Context) error {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	cfg, src, err := read(p.file, p.flags)
	if err != nil {
		return err
	}
	if err := cfg.unchanged(p.current.Load().cfg, src); err != nil {
		return err
	}
	g, err := p.build(cfg, src)
	if err != nil {
		return err
	}
	p.begin(ctx, g)
	return nil
}
