package limit_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/openapi"
	"github.com/oncelib/once/store/memstore"
)

type told struct {
	Code, Title string
	Retryable   bool
}

// What a limiter refuses with is in the document of a route that has one.
func TestRefusalsAreDocumented(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	for _, gate := range []oncehttp.Gate{nil, limit.New(limit.Config{Limit: 1})} {
		doc := openapi.New(e, map[string]oncehttp.Config{"POST /x": {Principal: oncehttp.SharedPrincipal(), Gate: gate}})
		var d struct {
			Paths map[string]map[string]struct {
				Responses map[string]struct {
					Codes   []told `json:"x-problems"` //nolint:tagliatelle // an extension of OpenAPI begins with x-
					Headers map[string]any
				}
			}
		}
		if err := json.Unmarshal([]byte(doc.String()), &d); err != nil {
			t.Fatal(err)
		}
		responses := d.Paths["/x"]["post"].Responses
		for status, want := range map[string]string{"429": limit.CodeExceeded, "503": limit.CodeOverloaded} {
			r := responses[status]
			i := slices.IndexFunc(r.Codes, func(c told) bool { return c.Code == want })
			if (i >= 0) != (gate != nil) || i >= 0 && (!r.Codes[i].Retryable || r.Codes[i].Title == "" || r.Headers["Retry-After"] == nil) {
				t.Errorf("with a gate: %t, %s: %+v", gate != nil, status, r)
			}
		}
	}
}
