package oncehttp

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/jsonpointer"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

// plan is a checked Config, in the form that a request needs.
type plan struct {
	Config
	preset        Preset
	verdicts      [1000]Verdict
	storedHeaders map[string]bool // canonical names of the stored headers
	answerHeaders []string        // canonical names of the headers about the answer, such as Idempotency-Status
	retention     time.Duration
	retain        string   // the retention in seconds, as the header has it
	scope         []string // the parts within which a key is unique, as words
	rule          *rule    // nil if the whole request is compared
	redact        []jsonpointer.Pointer
}

func compile(cfg Config, engineRetain time.Duration) *plan {
	if cfg.Preset == nil {
		cfg.Preset = DefaultPreset()
	}
	cfg.MaxRequest = cmp.Or(cfg.MaxRequest, defaultMaxRequest)
	cfg.MaxMemory = cmp.Or(cfg.MaxMemory, cfg.MaxRequest)
	cfg.MaxResponse = cmp.Or(cfg.MaxResponse, defaultMaxResponse)
	cfg.MaxStored = cmp.Or(cfg.MaxStored, defaultMaxStored)
	cfg.Retain = cmp.Or(cfg.Retain, cfg.Preset.Retain)
	if problem := invalid(&cfg); problem != "" {
		panic("oncehttp: " + problem) // a mistake of the program, so it panics as http.ServeMux.Handle does
	}
	p := &plan{Config: cfg, preset: *cfg.Preset, storedHeaders: map[string]bool{}}
	// The methods are copied, because the caller may change the preset for another route.
	p.preset.Methods = slices.Clone(p.preset.Methods)
	p.preset.Challenge = cmp.Or(p.preset.Challenge, "Bearer")
	p.preset.KeyHeaders = canonicalNames(p.preset.KeyHeaders)
	p.rule, p.redact = p.Compare.compile(), pointersOf(p.Redact)
	p.answerHeaders = append(p.answerHeaders, wire.RedactedHeader)
	for _, name := range p.preset.names() {
		if *name = http.CanonicalHeaderKey(*name); *name != "" {
			p.answerHeaders = append(p.answerHeaders, *name)
		}
	}
	switch p.scope = p.preset.Scope; {
	case p.Route != nil || p.preset.Route != nil && p.scope == nil:
		p.scope = []string{"caller", "custom"}
	case p.scope == nil:
		p.scope = []string{"caller", "route"}
	}
	if p.Route == nil {
		p.Route = p.preset.Route
	}
	if p.Undoes != "" { // only a header contains the key of the undone operation
		p.preset.KeyHeaders, p.Key, p.FormField, p.Optional = []string{wire.UndoesHeader}, nil, "", false
	}
	if p.preset.WriteProblem == nil {
		p.preset.WriteProblem = WriteProblem
	}
	for status := range p.verdicts {
		v, listed := p.preset.Verdicts[status]
		if !listed {
			// A key such as 2 is for all statuses from 200 to 299.
			v = p.preset.Verdicts[status/100]
		}
		p.verdicts[status] = v
	}
	for _, name := range slices.Concat(storedByDefault, canonicalNames(cfg.Headers)) {
		p.storedHeaders[name] = !neverStored(name)
	}
	p.retention = cmp.Or(cfg.Retain, engineRetain)
	p.retain = wire.FormatRetention(p.retention)
	return p
}

// storedByDefault has the headers that are stored in addition to Config.Headers.
var storedByDefault = []string{
	"Allow", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location",
	"Content-Type", "Etag", "Last-Modified", "Link", "Location", "Vary", "X-Content-Type-Options",
}

// restrictsReader reports whether a header restricts how others may use the answer. If outer middleware has set such a header, a replay keeps it,
// even if the first answer did not have it. Older releases did not store these headers.
func restrictsReader(name string) bool { return name == "Vary" || name == "X-Content-Type-Options" }

// neverStored reports whether a header is never stored: it is a credential, or it belongs to one connection or one message. The name is canonical.
func neverStored(name string) bool {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Cookie", "Authorization", "Proxy-Authorization", "Authentication-Info",
		"Proxy-Authentication-Info", "Www-Authenticate", "Proxy-Authenticate",
		"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Date",
		head.Mark: // only the engine uses it
		return true
	}
	return false
}

// isAnswerHeader reports whether a header reports how the request was handled, such as Idempotency-Status. A handler cannot set such a header.
func (p *plan) isAnswerHeader(name string) bool {
	return slices.Contains(p.answerHeaders, name)
}

// names returns the names of the headers that report how the request was handled.
func (p *Preset) names() []*string {
	return []*string{&p.StatusHeader, &p.ReplayedHeader, &p.RetentionHeader, &p.KeyHeader, &p.RetryHeader}
}

func (p *plan) keyed(method string) bool { return slices.Contains(p.preset.Methods, method) }

// invalid returns the reason why cfg is not valid, or "". The defaults of cfg are already set.
func invalid(cfg *Config) string {
	p := cfg.Preset
	switch {
	case cfg.Principal == nil:
		return "Config.Principal is not set, so all callers would share their keys and answers.\n" +
			"Try: a function that returns the authenticated account, or oncehttp.SharedPrincipal() if there is only one account."
	case len(p.Methods) == 0:
		return "Config.Preset has no methods.\nTry: start with oncehttp.DefaultPreset(), and change single fields."
	case len(p.KeyHeaders) == 0 && cfg.Key == nil && cfg.FormField == "":
		return "the configuration does not say where a request has its key.\nTry: set Preset.KeyHeaders, Config.FormField or Config.Key."
	case min(cfg.Wait, cfg.Retain) < 0 || min(cfg.MaxRequest, cfg.MaxMemory, cfg.MaxResponse, cfg.MaxStored) < 0:
		return "Config.Wait, Retain, MaxRequest, MaxMemory, MaxResponse and MaxStored must not be negative."
	case cfg.MaxMemory < cfg.MaxRequest && (cfg.CaptureRequest || cfg.FormField != "" || p.Body != nil || cfg.Compare.readsBody()):
		return "Config.MaxMemory is smaller than MaxRequest, but CaptureRequest, FormField, Preset.Body and a Compare of body fields need the whole body in memory.\nTry: leave MaxMemory out, or leave the other fields out."
	case min(cfg.Timeouts.Acquire, cfg.Timeouts.Lock, cfg.Timeouts.Statement, cfg.Timeouts.Idle) < 0:
		return "Config.Timeouts must not be negative."
	case len(cfg.Undoes) > maxUndoes || !printable.Is(cfg.Undoes):
		return fmt.Sprintf("Undoes has control characters, is not UTF-8 or has more than %d bytes.\nTry: the route to undo, such as \"POST /deposits\".", maxUndoes)
	case cfg.Isolation > store.Serializable:
		return fmt.Sprintf("the isolation level %d does not exist.\nTry: store.ReadCommitted, store.RepeatableRead or store.Serializable, which have other numbers than the levels of database/sql.", cfg.Isolation)
	}
	if wrong := cmp.Or(cfg.Compare.invalid(p), invalidPointers("Redact", cfg.Redact), cfg.KeyFormat.invalid()); wrong != "" {
		return wrong
	}
	for _, m := range p.Methods {
		switch m {
		case "", http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect:
			return fmt.Sprintf("the method %q cannot be protected by a key.\nTry: remove the method from Preset.Methods.", m)
		}
	}
	for status, v := range p.Verdicts {
		if v > VerdictCommit || status < 2 || status > 9 && status < 200 || status > 999 {
			return fmt.Sprintf("Preset.Verdicts[%d] = %d is not a verdict on a status.\nTry: 200 to 999, or 2 to 9 for a class; VerdictDiscard, VerdictAnswerOnly or VerdictCommit.", status, v)
		}
	}
	for code, status := range p.Problems {
		if _, known := problems[code]; !known || status < 400 || status > 599 {
			return fmt.Sprintf("Preset.Problems[%q] = %d is not the status of a problem.\nTry: a code of this package, 400 to 599.", code, status)
		}
	}
	for code, name := range p.Codes {
		if _, known := problems[code]; !known || name == "" {
			return fmt.Sprintf("Preset.Codes[%q] = %q does not rename a problem.\nTry: a code of this package, and a name for it.", code, name)
		}
	}
	return ""
}

// maxUndoes is the largest length of a name in Config.Undoes, in bytes.
const maxUndoes = 255

func canonicalNames(names []string) []string {
	c := make([]string, len(names))
	for i, n := range names {
		c[i] = http.CanonicalHeaderKey(n)
	}
	return c
}
