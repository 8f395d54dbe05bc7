package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// PrometheusConfig says what a Prometheus server scrapes and evaluates.
type PrometheusConfig struct {
	Jobs  map[string]string // the addresses to scrape (host:port), by the names of the jobs
	Every time.Duration     // the time between two scrapes, and between two evaluations of the rules
	Rules []string          // texts of rule files
}

// Prometheus is a private Prometheus server, which keeps its data in a directory of its own.
type Prometheus struct {
	who  identity
	dir  *directory
	port int

	closing sync.Once
	server  *process
	err     error // the error of Close
}

// StartPrometheus starts a server. ctx limits only the start.
func StartPrometheus(ctx context.Context, cfg PrometheusConfig) (*Prometheus, error) {
	path, err := Binary("prometheus")
	if err != nil {
		return nil, err
	}
	who, err := serverIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := newDirectory("once-prometheus-", who)
	if err != nil {
		return nil, err
	}
	p := &Prometheus{who: who, dir: dir}
	if err := p.prepare(cfg); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	for range 10 { // as in StartPostgres
		if p.port, err = freePort(); err != nil {
			break
		}
		if err = p.launch(ctx, path); err == nil {
			return p, nil
		}
		if !natsPortTaken(err) { // the message is the same, because both servers are written in Go
			break
		}
	}
	return nil, errors.Join(err, p.Close())
}

// URL returns the URL of its API.
func (p *Prometheus) URL() string { return "http://" + address(p.port) }

// LogPath returns the server's log.
func (p *Prometheus) LogPath() string { return filepath.Join(p.dir.path, "prometheus.log") }

// Close ends the server at once and removes its directory. Close may be called twice.
func (p *Prometheus) Close() error {
	p.closing.Do(func() {
		if p.server != nil {
			p.err = p.server.crash()
		}
		p.err = errors.Join(p.err, p.dir.remove())
	})
	return p.err
}

// Query returns the number of series in the answer to a query, without series whose value is NaN.
func (p *Prometheus) Query(ctx context.Context, query string) (series int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/api/v1/query?query="+url.QueryEscape(query), http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("testenv: %s: %w", resp.Status, err)
	}
	if answer.Error != "" {
		return 0, fmt.Errorf("testenv: %s: %s", query, answer.Error)
	}
	for _, r := range answer.Data.Result {
		if r.Value[1] != "NaN" {
			series++
		}
	}
	return series, nil
}

func (p *Prometheus) dataDir() string { return filepath.Join(p.dir.path, "data") }

func (p *Prometheus) configFile() string { return filepath.Join(p.dir.path, "prometheus.yml") }

// prepare writes the configuration. Another user must be able to read it.
func (p *Prometheus) prepare(cfg PrometheusConfig) error {
	if err := errors.Join(os.Mkdir(p.dataDir(), 0o700), p.who.own(p.dataDir())); err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "global: { scrape_interval: %dms, scrape_timeout: %[1]dms, evaluation_interval: %[1]dms }\nrule_files: [ 'rules-*.yml' ]\nscrape_configs:\n", cfg.Every.Milliseconds())
	for job, target := range cfg.Jobs {
		fmt.Fprintf(&text, "  - { job_name: %q, static_configs: [ { targets: [ %q ] } ] }\n", job, target)
	}
	err := os.WriteFile(p.configFile(), []byte(text.String()), 0o644) //nolint:gosec // no secret
	for i, rules := range cfg.Rules {
		err = errors.Join(err, os.WriteFile(filepath.Join(p.dir.path, fmt.Sprintf("rules-%d.yml", i)), []byte(rules), 0o644)) //nolint:gosec // likewise
	}
	return err
}

func (p *Prometheus) launch(ctx context.Context, path string) error {
	log, file, err := openLog(p.LogPath())
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(path, "--config.file="+p.configFile(), "--storage.tsdb.path="+p.dataDir(), "--web.listen-address="+address(p.port)) //nolint:noctx // it outlives ctx
	cmd.Dir = p.dataDir()
	cmd.Env = cleanEnv()
	cmd.Stdout, cmd.Stderr = file, file
	server, err := startProcess(cmd, p.who, syscall.SIGKILL, p.dir)
	if err != nil {
		return err
	}
	attempt := start{server: server, port: p.port, login: p.ready, log: log, bound: func() bool {
		return log.contains("Server is ready to receive web requests")
	}}
	if err := attempt.await(ctx); err != nil {
		return errors.Join(err, server.crash())
	}
	p.server = server
	return nil
}

func (p *Prometheus) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/-/ready", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return errNotReady
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errNotReady
	}
	return nil
}
