package home_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/oncelib/once/home"
)

// TestPinsInAnyOrder: of the pins of a tenant the one of the latest move stands, in whatever order they arrive, also from files.
func TestPinsInAnyOrder(t *testing.T) {
	m := home.NewMap("ap", "eu", "us")
	for _, p := range []home.Pin{{Region: "eu", Epoch: 3}, {Region: "us", Epoch: 2}, {Region: "ap", Epoch: 5}, {Region: "eu", Epoch: 3}} {
		if news := m.Pin("acme", p); news != (p.Epoch > 3 || p == home.Pin{Region: "eu", Epoch: 3} && m.Home("acme") == p) {
			t.Errorf("%v: news %t", p, news)
		}
	}
	if p := m.Home("acme"); p != (home.Pin{Region: "ap", Epoch: 5}) {
		t.Error(p)
	}
	file := filepath.Join(t.TempDir(), "pins.json")
	if err := os.WriteFile(file, []byte(`{"acme": {"region": "us", "epoch": 7}, "other": {"region": "eu", "epoch": 1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*home.Map{m, home.NewMap("eu")} {
		if err := m.ReadFile(file); err != nil || m.Home("acme").Region != "us" || m.Home("other").Epoch != 1 {
			t.Error(err, m.Home("acme"), m.Home("other"))
		}
	}
	if err := m.ReadFile(file + ".none"); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestNewRegion: a region that is new takes over its own share of the tenants without a pin, and no other tenant goes elsewhere.
func TestNewRegion(t *testing.T) {
	before, after := home.NewMap("ap", "eu", "us"), home.NewMap("sa", "us", "eu", "ap")
	gone := map[string]int{}
	for i := range 4000 {
		tenant := fmt.Sprint("tenant ", i)
		if was, is := before.Home(tenant), after.Home(tenant); was != is {
			gone[is.Region]++
		}
	}
	if n := gone["sa"]; len(gone) != 1 || n < 800 || n > 1200 {
		t.Errorf("of 4000 tenants, other regions have now: %v", gone)
	}
}
