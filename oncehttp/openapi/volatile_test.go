package openapi_test

import (
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/openapi"
	"github.com/oncelib/once/store/memstore"
)

// frail is a store that may lose what it has confirmed.
type frail struct{ *memstore.Store }

func (frail) Volatile() string { return "All may be lost." }

// TestVolatileStoreIsNamed: the document says what the store may lose, and nothing where it loses nothing.
func TestVolatileStoreIsNamed(t *testing.T) {
	routes := map[string]oncehttp.Config{"POST /mails": {Principal: oncehttp.SharedPrincipal()}}
	if doc := openapi.New(once.New[*memstore.Tx](frail{memstore.New()}, once.Config{}), routes).String(); !strings.Contains(doc, `"may_be_lost": "All may be lost."`) {
		t.Error(doc)
	}
	if doc := openapi.New(once.New(memstore.New(), once.Config{}), routes).String(); strings.Contains(doc, "may_be_lost") {
		t.Error(doc)
	}
}
