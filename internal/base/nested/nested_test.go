package nested_test

import (
	"context"
	"testing"

	"github.com/oncelib/once/internal/base/nested"
)

type (
	preset struct {
		Names []string
		Map   map[int]int
		Func  func() string
	}
	state  struct{ n int }
	config struct {
		N      int
		Func   func() string
		Preset *preset
		Any    any
		State  *state
		Bounds struct{ A, B int }
	}
)

func fixed() string { return "" }

func TestDifferenceNamesTheField(t *testing.T) {
	var says []func() string // of one piece of code
	for _, s := range []string{"a", "b"} {
		says = append(says, func() string { return s })
	}
	shared := &state{1}
	base := func() *config {
		c := &config{State: shared, N: 1, Func: says[0], Preset: &preset{Names: []string{"a"}, Map: map[int]int{1: 2}, Func: fixed}, Any: t}
		c.Bounds.A = 1
		return c
	}
	for want, change := range map[string]func(*config){
		"":              func(*config) {},
		"Config.N":      func(c *config) { c.N = 2 },
		"Config.Func":   func(c *config) { c.Func = says[1] }, // the same code
		"Config.Preset": func(c *config) { c.Preset.Names = []string{"b"} },
		"Config.Any":    func(c *config) { c.Any = []int{1} },
		"Config.State":  func(c *config) { c.State = &state{shared.n} }, // what is in it now is the same
		"Config.Bounds": func(c *config) { c.Bounds.B = 1 },
	} {
		inner := base()
		change(inner)
		ctx := context.WithValue(t.Context(), nested.Key{Engine: 1}, base())
		if got := nested.Difference(ctx, 1, inner); got != want {
			t.Errorf("%q, not %q", got, want)
		}
		if got := nested.Difference(context.WithValue(ctx, nested.Key{Engine: 2}, "of another engine"), 1, inner); got != want {
			t.Errorf("around another engine: %q, not %q", got, want)
		}
	}
	for name, change := range map[string]func(*config){
		"nil function":          func(c *config) { c.Func = nil },
		"nil preset":            func(c *config) { c.Preset = nil },
		"map of the preset":     func(c *config) { c.Preset.Map[1] = 3 },
		"function of a preset":  func(c *config) { c.Preset.Func = says[0] },
		"nothing in interfaces": func(c *config) { c.Any = nil },
	} {
		inner := base()
		change(inner)
		for i, pair := range [][2]*config{{base(), inner}, {inner, base()}} {
			if nested.Difference(context.WithValue(t.Context(), nested.Key{Engine: 1}, pair[0]), 1, pair[1]) == "" {
				t.Errorf("%s, %d: no difference", name, i)
			}
		}
	}
	if got := nested.Difference(t.Context(), 1, base()); got != "the transport" {
		t.Error(got)
	}
	if got := nested.Difference(context.WithValue(t.Context(), nested.Key{Engine: 1}, new(preset)), 1, base()); got != "the transport" {
		t.Error(got)
	}
}
