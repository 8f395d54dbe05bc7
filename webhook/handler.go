package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const maxRequest = 64 << 10

// Handler returns an HTTP API with which tenants manage their own endpoints. Wrap the handler in your
// authentication. The function tenantOf returns the tenant of a request. If tenantOf returns "", the answer is
// 401. For endpoints of other tenants the answer is 404. Bodies are JSON. A POST with the Content-Type of an
// HTML form is refused, because a form on another web site could send such a request.
//
//	mux.Handle("/webhooks/", authenticate(hooks.Handler("/webhooks", tenantOf)))
//
//	GET    /webhooks/endpoints
//	POST   /webhooks/endpoints                 {"url", "types", "description", "headers", "ordered", "rate", "concurrency", "disabled", "secret"}: the answer has the secret
//	GET    /webhooks/endpoints/{id}
//	PATCH  /webhooks/endpoints/{id}            the fields to change, and "version" to detect a concurrent change
//	DELETE /webhooks/endpoints/{id}
//	POST   /webhooks/endpoints/{id}/disable
//	POST   /webhooks/endpoints/{id}/enable
//	POST   /webhooks/endpoints/{id}/rotate     {"overlap_seconds", "secret"}: the answer has the secret
//	POST   /webhooks/endpoints/{id}/test
//	POST   /webhooks/endpoints/{id}/recover    {"since", "until", "rate"}: see [Endpoints.Recover]
//	POST   /webhooks/endpoints/{id}/replay     the same: see [Endpoints.Replay]
//	GET    /webhooks/endpoints/{id}/deliveries?state=stopped&before=EVENT&limit=50
//	GET    /webhooks/endpoints/{id}/deliveries/{event}
//	POST   /webhooks/endpoints/{id}/deliveries/{event}/resend
//
// The body of an error is a problem document (RFC 9457) with a code. Handler panics if prefix does not begin
// with a slash, or ends with a slash.
func (h *Hooks[TX]) Handler(prefix string, tenantOf func(*http.Request) string) http.Handler {
	if prefix != "" && (prefix[0] != '/' || strings.HasSuffix(prefix, "/") || strings.ContainsAny(prefix, "{}")) {
		panic(fmt.Sprintf("webhook: Handler: the prefix %q must begin with a slash, and must not end with a slash or contain braces. Try: such as \"/webhooks\"", prefix))
	}
	a := &api{h.Endpoints(), tenantOf, h.cfg.ShowAnswersOf}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(c *call) (any, error){
		"GET /endpoints":                                 a.list,
		"POST /endpoints":                                a.create,
		"GET /endpoints/{id}":                            a.get,
		"PATCH /endpoints/{id}":                          a.update,
		"DELETE /endpoints/{id}":                         a.remove,
		"POST /endpoints/{id}/disable":                   a.disable,
		"POST /endpoints/{id}/enable":                    a.enable,
		"POST /endpoints/{id}/rotate":                    a.rotate,
		"POST /endpoints/{id}/test":                      a.test,
		"POST /endpoints/{id}/recover":                   a.again((*Endpoints).Recover),
		"POST /endpoints/{id}/replay":                    a.again((*Endpoints).Replay),
		"GET /endpoints/{id}/deliveries":                 a.deliveries,
		"GET /endpoints/{id}/deliveries/{event}":         a.delivery,
		"POST /endpoints/{id}/deliveries/{event}/resend": a.resend,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" "+prefix+path, a.serve(serve))
	}
	return mux
}

// api is the handler of the API for tenants.
type api struct {
	endpoints *Endpoints
	tenantOf  func(*http.Request) string
	show      []string
}

// call is one request of a tenant.
type call struct {
	r                 *http.Request
	tenant, id, event string
	status            int // the status of the answer
}

func (a *api) serve(serve func(*call) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Some answers contain a secret, so no cache may store them.
		w.Header().Set("Cache-Control", "no-store")
		c := &call{r: r, tenant: a.tenantOf(r), id: r.PathValue("id"), event: r.PathValue("event"), status: http.StatusOK}
		if c.tenant == "" {
			writeProblem(w, problem{Status: http.StatusUnauthorized, Code: "unauthenticated", Detail: "The request has no tenant, so its endpoints cannot be found."})
			return
		}
		// A form on another site can send no JSON, so this check refuses such a form.
		if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/json" && (r.Method == http.MethodPost || r.Method == http.MethodPatch) {
			writeProblem(w, problem{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Detail: "The Content-Type is not application/json."})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		var answer any
		err := ErrNotFound // a malformed ID must not reach the database: not every database accepts every text
		if isIDOrNone(c.id) && isIDOrNone(c.event) && isIDOrNone(r.URL.Query().Get("before")) {
			answer, err = serve(c)
		}
		if err != nil {
			writeProblem(w, problemOf(err))
			return
		}
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(c.status)
		_ = json.NewEncoder(w).Encode(answer) // the error is ignored: the client is gone
	})
}

func isIDOrNone(s string) bool { return s == "" || isID(s) }

// read decodes the body into the value into. An empty body is allowed, because all fields may be optional.
func (c *call) read(into any) error {
	d := json.NewDecoder(c.r.Body)
	// A misspelled field would otherwise be ignored, and the tenant would think that it was set.
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == io.EOF {
		return nil
	}
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errTwice
		}
	}
	if err != nil {
		return &malformedError{err}
	}
	return nil
}

// endpointJSON is an endpoint in an answer to a tenant.
type endpointJSON struct {
	ID             string     `json:"id"`
	URL            string     `json:"url"`
	Types          []string   `json:"types"`
	Description    string     `json:"description"`
	HeaderNames    []string   `json:"header_names"` // only names, because the values are often passwords
	Ordered        bool       `json:"ordered"`
	Rate           float64    `json:"rate"`
	Concurrency    int        `json:"concurrency"`
	DisabledAt     *time.Time `json:"disabled_at"`
	DisabledBy     Disabled   `json:"disabled_by"`
	OldSecretUntil *time.Time `json:"old_secret_until"`
	CreatedAt      time.Time  `json:"created_at"`
	Version        int64      `json:"version"`
	PublicKey      string     `json:"public_key,omitempty"` // the key that verifies signatures of version v1a
	Secret         string     `json:"secret,omitempty"`
}

func shown(e *Endpoint, secret string) endpointJSON {
	return endpointJSON{
		e.ID, e.URL, e.Types, e.Description, append([]string{}, slices.Sorted(maps.Keys(e.Headers))...), e.Ordered, e.Rate, e.Concurrency,
		orNull(e.DisabledAt), e.DisabledBy, orNull(e.OldSecretUntil), e.CreatedAt, e.Version, e.PublicKey, secret,
	}
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// endpointInput has the settings in a request of a tenant. A nil field leaves the setting as it is.
type endpointInput struct {
	URL         *string           `json:"url"`
	Types       []string          `json:"types"`
	Description *string           `json:"description"`
	Headers     map[string]string `json:"headers"`
	Ordered     *bool             `json:"ordered"`
	Rate        *float64          `json:"rate"`
	Concurrency *int              `json:"concurrency"`
	Version     int64             `json:"version"`
}

func (in *endpointInput) set(e *Endpoint) {
	setIf(&e.URL, in.URL)
	setIf(&e.Description, in.Description)
	setIf(&e.Ordered, in.Ordered)
	setIf(&e.Rate, in.Rate)
	setIf(&e.Concurrency, in.Concurrency)
	if in.Types != nil {
		e.Types = in.Types
	}
	if in.Headers != nil {
		e.Headers = in.Headers
	}
	// Without a version from the tenant, Update detects only changes since this read.
	e.Version = cmp.Or(in.Version, e.Version)
}

func setIf[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (a *api) list(c *call) (any, error) {
	list, err := a.endpoints.List(c.r.Context(), c.tenant)
	answer := struct {
		Endpoints []endpointJSON `json:"endpoints"`
	}{[]endpointJSON{}}
	for i := range list {
		answer.Endpoints = append(answer.Endpoints, shown(&list[i], ""))
	}
	return answer, err
}

func (a *api) create(c *call) (any, error) {
	var in struct {
		endpointInput

		Disabled bool   `json:"disabled"`
		Secret   string `json:"secret"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	e := Endpoint{Tenant: c.tenant, Secret: in.Secret}
	in.set(&e)
	if in.Disabled {
		e.DisabledBy = DisabledByPerson
	}
	c.status = http.StatusCreated
	e, secret, err := a.endpoints.Create(c.r.Context(), e)
	return shown(&e, secret), err
}

func (a *api) get(c *call) (any, error) { return one(a.endpoints.Get(c.r.Context(), c.tenant, c.id)) }

func (a *api) update(c *call) (any, error) {
	var in endpointInput
	if err := c.read(&in); err != nil {
		return nil, err
	}
	// Settings that the request leaves out keep their values.
	e, err := a.endpoints.Get(c.r.Context(), c.tenant, c.id)
	if err != nil {
		return nil, err
	}
	in.set(&e)
	return one(a.endpoints.Update(c.r.Context(), e))
}

func (a *api) remove(c *call) (any, error) {
	return nil, a.endpoints.Delete(c.r.Context(), c.tenant, c.id)
}
func (a *api) disable(c *call) (any, error) {
	return one(a.endpoints.Disable(c.r.Context(), c.tenant, c.id))
}
func (a *api) enable(c *call) (any, error) {
	return one(a.endpoints.Enable(c.r.Context(), c.tenant, c.id))
}
func (a *api) resend(c *call) (any, error) {
	return nil, a.endpoints.Resend(c.r.Context(), c.tenant, c.id, c.event)
}

func one(e Endpoint, err error) (any, error) { return shown(&e, ""), err }

func (a *api) rotate(c *call) (any, error) {
	in := struct {
		Overlap float64 `json:"overlap_seconds"`
		Secret  string  `json:"secret"`
	}{Overlap: (24 * time.Hour).Seconds()}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	overlap := time.Duration(-1) // Rotate refuses -1
	if in.Overlap >= 0 && in.Overlap <= maxOverlap.Seconds() {
		overlap = time.Duration(in.Overlap * float64(time.Second))
	}
	e, secret, err := a.endpoints.Rotate(c.r.Context(), c.tenant, c.id, Rotation{Secret: in.Secret, Overlap: overlap})
	return shown(&e, secret), err
}

func (a *api) test(c *call) (any, error) {
	event, err := a.endpoints.Test(c.r.Context(), c.tenant, c.id)
	return map[string]string{"event": event}, err
}

func (a *api) again(do func(es *Endpoints, ctx context.Context, tenant, id string, p Period) (int64, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		var in struct {
			Since time.Time `json:"since"`
			Until time.Time `json:"until"`
			Rate  float64   `json:"rate"`
		}
		if err := c.read(&in); err != nil {
			return nil, err
		}
		// Without a beginning, an empty body would send every event that is kept.
		if in.Since.IsZero() {
			return nil, &malformedError{errNoSince}
		}
		n, err := do(a.endpoints, c.r.Context(), c.tenant, c.id, Period(in))
		return map[string]int64{"deliveries": n}, err
	}
}

// deliveryJSON is a delivery in an answer to a tenant.
type deliveryJSON struct {
	Event     string        `json:"event"`
	Type      string        `json:"type"`
	CreatedAt time.Time     `json:"created_at"`
	State     DeliveryState `json:"state"`
	DueAt     *time.Time    `json:"due_at"`
	Failures  int           `json:"failures"`
	Last      *attemptJSON  `json:"last_attempt"`
	Attempts  []attemptJSON `json:"attempts,omitempty"`
}

type attemptJSON struct {
	At         time.Time `json:"at"`
	DurationMS int64     `json:"duration_ms"`
	Status     int       `json:"status"`
	Error      string    `json:"error"`
	Size       int64     `json:"size"`
	Cause      Cause     `json:"cause"`
	Answer     string    `json:"answer,omitempty"`
}

func deliveryOf(d *Delivery) deliveryJSON {
	j := deliveryJSON{Event: d.Event, Type: d.Type, CreatedAt: d.CreatedAt, State: d.State, DueAt: orNull(d.DueAt), Failures: d.Failures}
	if !d.Last.At.IsZero() {
		last := attemptOf(&d.Last, false)
		j.Last = &last
	}
	return j
}

func attemptOf(a *Attempt, show bool) attemptJSON {
	j := attemptJSON{At: a.At, DurationMS: a.Duration.Milliseconds(), Status: a.Status, Error: a.Error, Size: a.Size, Cause: a.Cause}
	if show {
		j.Answer = string(a.Answer)
	}
	return j
}

func (a *api) deliveries(c *call) (any, error) {
	query := c.r.URL.Query()
	f := DeliveryFilter{State: DeliveryState(query.Get("state")), Before: query.Get("before")}
	if !slices.Contains([]DeliveryState{"", DeliveryWaiting, DeliveryStopped, DeliveryDelivered}, f.State) {
		return nil, &malformedError{fmt.Errorf("the state %q does not exist. Try: waiting, stopped or delivered", f.State)}
	}
	if limit := query.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > mostListed {
			return nil, &malformedError{fmt.Errorf("the limit is %q, which is not allowed. Try: a number from 1 to %d", limit, mostListed)}
		}
		f.Limit = n
	}
	list, more, err := a.endpoints.Deliveries(c.r.Context(), c.tenant, c.id, f)
	answer := struct {
		Deliveries []deliveryJSON `json:"deliveries"`
		More       bool           `json:"more"`
	}{[]deliveryJSON{}, more}
	for i := range list {
		answer.Deliveries = append(answer.Deliveries, deliveryOf(&list[i]))
	}
	return answer, err
}

func (a *api) delivery(c *call) (any, error) {
	d, attempts, err := a.endpoints.Delivery(c.r.Context(), c.tenant, c.id, c.event)
	if err != nil {
		return nil, err
	}
	j := deliveryOf(&d)
	for i := range attempts {
		j.Attempts = append(j.Attempts, attemptOf(&attempts[i], a.shows(attempts[i].Host)))
	}
	return j, nil
}

// shows reports whether a tenant may read the answers of a host. The caller passes the host of the attempt,
// because the endpoint may have another URL now.
func (a *api) shows(host string) bool {
	return host != "" && slices.ContainsFunc(a.show, func(shown string) bool { return strings.EqualFold(shown, host) })
}
